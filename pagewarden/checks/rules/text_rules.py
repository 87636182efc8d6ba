"""Find faults that are visible without references.

These are placeholders, mojibake, missing glyphs and cut-off text.
"""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

import regex

from pagewarden.checks.rules import comparison, languages, result
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIN_LINES = 3
# Minimum letter width of a line relative to other lines, and of a word relative to other words; and
# minimum excess width of the word in line heights.
_MAX_LINE_STRETCH, _MAX_WORD_STRETCH, _MIN_EXCESS_HEIGHTS = 1.2, 1.8, 1.4


def find_wide_gaps(lines: Sequence[pages.Line]) -> Iterator[tuple[pages.Line, pages.Word]]:
    """Find lines with unreadable parts, such as boxes; return each with the word beside the part.

    Engines leave out what they cannot read, so the line and that word are wider than their letters
    need. Lines in capitals are skipped, as they are wide anyway.
    """
    widths = [_measure_letter_width(line) / _get_line_height(line) for line in lines]
    if len(lines) < MIN_LINES:
        return
    median = statistics.median(widths)
    for line, width in zip(lines, widths, strict=True):
        if width >= _MAX_LINE_STRETCH * median and not line.text.isupper():
            word = next(_find_stretched_words(line), None)
            if word is not None:
                yield line, word


def _find_stretched_words(line: pages.Line) -> Iterator[pages.Word]:
    """Find words whose letters are much wider than those of the others."""
    if not _is_in_order([pages.bounding_box(word.quad) for word in line.words]):
        return
    widths = [_measure_letter_width(word) for word in line.words]
    for index, word in enumerate(line.words):
        median = statistics.median_low(widths[:index] + widths[index + 1 :])
        excess = (widths[index] - median) * len(comparison.split_graphemes(word.text))
        min_excess = _MIN_EXCESS_HEIGHTS * _get_line_height(line)
        if widths[index] > _MAX_WORD_STRETCH * median and excess > min_excess:
            yield word


def _measure_letter_width(text: pages.Line | pages.Word) -> float:
    box = pages.bounding_box(text.quad)
    return (box.right - box.left) / max(1, len(comparison.split_graphemes(text.text)))


def _get_line_height(line: pages.Line) -> float:
    box = pages.bounding_box(line.quad)
    return max(1.0, box.bottom - box.top)


def _is_in_order(boxes: Sequence[pages.Box]) -> bool:
    """Tell whether there are several words in order, left to right or right to left.

    If an engine mixed up the word positions, their widths mean nothing.
    """
    ordered = sorted(boxes)
    apart = all(one.right <= other.left + 2 for one, other in itertools.pairwise(ordered))
    return len(boxes) > 1 and apart and list(boxes) in (ordered, ordered[::-1])


# One brace is enough: OCR engines often read the other one as a bracket.
_PLACEHOLDER = regex.compile(
    r"""
      \{\{?\s*[\p{L}_$\d][\w.$\-]*\s*[)\]}]{1,2}          # {name} {{ name }} {0}
    | [(\[{]{1,2}\s*[\p{L}_\d][\w.$\-]*\s*\}\}?
    | \$\{[^}]*\}? | \#\{[^}]*\}?                         # ${name} #{name}
    | %(?:\d\$)?(?:\.\d)?(?:l?[sdiuf@])(?!\p{L})        # %s %d %1$s %@
    | %\(\w+\)[sd] | %\{\w+\}                             # %(name)s %{name}
    | \$t\s?\( [^)]*\)?                                   # $t(key)
    | <%=?.*?%>                                           # <%= name %>
    | \(\(\w+\)\) | \(0\)(?=\s\p{Ll})                    # both braces misread
    """,
    regex.VERBOSE,
)
# Braces read as parentheses around typical parameter names, which are not words outside English.
_MISREAD_PLACEHOLDER = regex.compile(
    r"\((?:name|count|user|userName|username|firstName|value|number)\)"
)
# UTF-8 decoded as Windows-1252: é becomes Ã©, я becomes Ñ and another character.
_CONTINUATION = regex.escape(bytes(range(0x80, 0xC0)).decode("cp1252", "ignore"))
_MOJIBAKE = regex.compile(
    rf"""
      [ÂÃĀÄÅÆÇÈÉÎÏÐÑ] [{_CONTINUATION}]
    | â€ | ï»¿ | ï¿½
    | \p{{Ll}} [ÃÂ] | \p{{L}} [ÃÂĀÄÅÐÑ] \p{{Ll}}  # the second character was misread or missed
    | \p{{L}} [\p{{So}}\p{{Sc}}\p{{No}}§¶¡¿] \p{{L}}
    | (?:[ÐÑ]\S?){{3}}
    """,
    regex.VERBOSE,
)
# Boxes as such, or read as ideographs, as brackets (their sides) or as zeros.
_BOXES = regex.compile(
    r"""
      [\ufffd□▯☐⬜⎕]+
    | [口ロ日田囗]{2,} | (?<!\S)[口囗](?!\S)
    | (?<!\S)(?=\S*[\[\]])[0OD|\[\]]+(?!\S) | (?<!\S)0{4,}(?!\S)
    """,
    regex.VERBOSE,
)
_IDEOGRAPHIC_LANGUAGES = frozenset({"zh", "ja", "ko"})
_IDEOGRAPH = regex.compile(r"(?![口ロ日田囗])[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
# Text closer to the left or right edge than this, in line heights, is cut off: layouts keep larger
# margins. At the top and bottom, it has to touch the edge within this number of pixels.
_MARGIN = 0.35
_EDGE_PIXELS = 1.5
_LETTERS = regex.compile(r"\p{L}")


def find_text_issues(page: pages.ReadPage, language: str | None) -> Iterator[result.Issue]:
    """Find the faults of a page; without `language`, those that apply to any language."""
    lines = page.lines
    if language is None:
        ideographs = any(_IDEOGRAPH.search(line.text) for line in lines)
    else:
        ideographs = language in _IDEOGRAPHIC_LANGUAGES
    for line in lines:
        yield from _find_placeholders(line, language)
        yield from _find_mojibake(line)
        yield from _find_missing_glyphs(line, ideographs=ideographs)
        yield from _find_cut_off(line, page)
    if not ideographs:
        yield from (
            _make_missing_glyph_issue(line, word.quad) for line, word in find_wide_gaps(lines)
        )


def _find_placeholders(line: pages.Line, language: str | None) -> Iterator[result.Issue]:
    misread = (
        () if language in (None, languages.ENGLISH) else _MISREAD_PLACEHOLDER.finditer(line.text)
    )
    for match in itertools.chain(_PLACEHOLDER.finditer(line.text), misread):
        yield result.Issue(
            result.IssueKind.PLACEHOLDER,
            f"The placeholder {match[0]!r} was not filled in.",
            result.locate_part(line, *match.span()),
            found=match[0],
        )


def _find_mojibake(line: pages.Line) -> Iterator[result.Issue]:
    match = _MOJIBAKE.search(line.text)
    if match is not None:
        yield result.Issue(
            result.IssueKind.MOJIBAKE,
            f"{line.text!r} was decoded with the wrong character set.",
            result.locate_part(line, *match.span()),
            found=line.text,
        )


def _find_missing_glyphs(line: pages.Line, *, ideographs: bool) -> Iterator[result.Issue]:
    if ideographs and not regex.search(r"[\ufffd□▯]", line.text):
        return
    match = _BOXES.search(line.text)
    if match is not None:
        yield _make_missing_glyph_issue(line, result.locate_part(line, *match.span()))


def _make_missing_glyph_issue(line: pages.Line, quad: pages.Quad) -> result.Issue:
    return result.Issue(
        result.IssueKind.MISSING_GLYPH,
        f"{line.text!r} has unreadable parts, such as boxes in place of characters missing from "
        "the font.",
        quad,
        found=line.text,
    )


def _find_cut_off(line: pages.Line, page: pages.ReadPage) -> Iterator[result.Issue]:
    """Find text that is cut off at an edge of the picture.

    Only its position counts, so complete text set right at the edge is reported, too.
    """
    box = pages.bounding_box(line.quad)
    margin = _MARGIN * (box.bottom - box.top)
    sides = {
        "left": box.left <= margin,
        "right": box.right >= page.width - margin,
        "top": box.top <= _EDGE_PIXELS,
        "bottom": box.bottom >= page.height - _EDGE_PIXELS,
    }
    touched = [side for side, touches in sides.items() if touches]
    if len(touched) == len(sides):  # the engine does not report positions
        return
    if touched and _LETTERS.search(line.text):
        yield result.Issue(
            result.IssueKind.CUT_OFF,
            f"{line.text!r} runs into the {touched[0]} edge of the picture.",
            line.quad,
            found=line.text,
        )
