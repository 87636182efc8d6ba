"""Faults that show in the text itself, whatever it should say."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import regex

from pagewarden.checks import gaps, languages, places, report
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

# One brace is enough: readers of pictures take the other one for a bracket.
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
# Braces taken for parentheses, around what programs call things: no words elsewhere.
_NAMED = regex.compile(r"\((?:name|count|user|userName|username|firstName|value|number)\)")
# Text in UTF-8 that was taken for Windows-1252: é is Ã©, я is Ñ and a sign after it.
_CONTINUED = regex.escape(bytes(range(0x80, 0xC0)).decode("cp1252", "ignore"))
_MOJIBAKE = regex.compile(
    rf"""
      [ÂÃĀÄÅÆÇÈÉÎÏÐÑ] [{_CONTINUED}]
    | â€ | ï»¿ | ï¿½
    | \p{{Ll}} [ÃÂ] | \p{{L}} [ÃÂĀÄÅÐÑ] \p{{Ll}}  # the sign after it was misread, or not seen
    | \p{{L}} [\p{{So}}\p{{Sc}}\p{{No}}§¶¡¿] \p{{L}}
    | (?:[ÐÑ]\S?){{3}}
    """,
    regex.VERBOSE,
)
# As they are, or taken for ideographs, for brackets (their sides are), or for noughts.
_BOXES = regex.compile(
    r"""
      [\ufffd□▯☐⬜⎕]+
    | [口ロ日田囗]{2,} | (?<!\S)[口囗](?!\S)
    | (?<!\S)(?=\S*[\[\]])[0OD|\[\]]+(?!\S) | (?<!\S)0{4,}(?!\S)
    """,
    regex.VERBOSE,
)
_SEEN_AS_BOX_IN = frozenset({"zh", "ja", "ko"})
_IDEOGRAPH = regex.compile(r"(?![口ロ日田囗])[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
# What ends nearer to the left or right edge than this, in heights of its line, goes on behind it:
# nobody sets text so. At the top and the bottom it has to touch it, within so many pixels.
_MARGIN = 0.35
_TOUCHING = 1.5
_LETTERS = regex.compile(r"\p{L}")


def find(page: pages.ReadPage, language: str | None) -> Iterator[report.Issue]:
    """Find the faults of a page, line by line; without a language, those of any language."""
    lines = page.lines
    if language is None:
        ideographs = any(_IDEOGRAPH.search(line.text) for line in lines)
    else:
        ideographs = language in _SEEN_AS_BOX_IN
    for line in lines:
        yield from _placeholders(line, language)
        yield from _mojibake(line)
        yield from _boxes(line, ideographs=ideographs)
        yield from _cut_off(line, page)
    if not ideographs:
        yield from (_no_text(line, word.quad) for line, word in gaps.find(lines))


def _placeholders(line: pages.Line, language: str | None) -> Iterator[report.Issue]:
    named = () if language in (None, languages.ENGLISH) else _NAMED.finditer(line.text)
    for match in itertools.chain(_PLACEHOLDER.finditer(line.text), named):
        yield report.Issue(
            report.Kind.PLACEHOLDER,
            f"The placeholder {match[0]!r} was not filled in.",
            places.of_part(line, *match.span()),
            found=match[0],
        )


def _mojibake(line: pages.Line) -> Iterator[report.Issue]:
    match = _MOJIBAKE.search(line.text)
    if match is not None:
        yield report.Issue(
            report.Kind.MOJIBAKE,
            f"{line.text!r} was decoded with the wrong character set.",
            places.of_part(line, *match.span()),
            found=line.text,
        )


def _boxes(line: pages.Line, *, ideographs: bool) -> Iterator[report.Issue]:
    if ideographs and not regex.search(r"[\ufffd□▯]", line.text):
        return
    match = _BOXES.search(line.text)
    if match is not None:
        yield _no_text(line, places.of_part(line, *match.span()))


def _no_text(line: pages.Line, quad: pages.Quad) -> report.Issue:
    return report.Issue(
        report.Kind.MISSING_GLYPH,
        f"In {line.text!r} something is no text, such as boxes for letters the font lacks.",
        quad,
        found=line.text,
    )


def _cut_off(line: pages.Line, page: pages.ReadPage) -> Iterator[report.Issue]:
    """Find text that runs into the left or right edge, or of which the upper or lower half is gone.

    Only from where it stands: a caption set right at the edge is taken for cut off.
    """
    box = pages.bounds(line.quad)
    margin = _MARGIN * (box.bottom - box.top)
    sides = {
        "left": box.left <= margin,
        "right": box.right >= page.width - margin,
        "top": box.top <= _TOUCHING,
        "bottom": box.bottom >= page.height - _TOUCHING,
    }
    touched = [side for side, touches in sides.items() if touches]
    if len(touched) == len(sides):  # an engine that does not know where the text is
        return
    if touched and _LETTERS.search(line.text):
        yield report.Issue(
            report.Kind.CUT_OFF,
            f"{line.text!r} runs into the {touched[0]} edge of the picture.",
            line.quad,
            found=line.text,
        )
