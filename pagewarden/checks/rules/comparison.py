"""Find expected strings in the text of a page; verdicts and diffs.

A string may match a line, a part of a line, or several lines, so matching works on tokens. Lengths
and differences are counted in graphemes.
"""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex
from rapidfuzz.distance import Levenshtein

from pagewarden.checks.rules import normalization

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# An inexact match may span at most this many lines.
MAX_LINES_PER_SPAN = 6
# In scripts written without spaces, each character is a token.
_TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}\p{Myanmar}]\p{M}*"
    r"|[^\s\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}\p{Myanmar}]+"
)
# Characters that OCR engines confuse in most fonts.
_LOOKALIKES = str.maketrans({"1": "l", "|": "l", "i": "l", "!": "l", "0": "o", "5": "s", "8": "b"})
# Punctuation inside numbers is significant: 10,5 is not 105.
_SEPARATORS = regex.compile(r"[\s'\"`·\-_]+|(?<!\d)[.,;:]+|[.,;:]+(?!\d)")


# Identical strokes in most sans-serif fonts; a caron beside a letter looks like a quote.
_INDISTINGUISHABLE = str.maketrans({"I": "l", "|": "l", "ť": "t'", "ľ": "l'", "ď": "d'", "Ľ": "L'"})


def fold_lookalikes(text: str) -> str:
    """Map texts that look identical in a picture to the same form."""
    return normalization.normalize_strict(text).translate(_INDISTINGUISHABLE).replace("''", "'")


def to_skeleton(text: str) -> str:
    """Map texts that OCR engines confuse to the same form, which is only for comparison."""
    return _SEPARATORS.sub("", normalization.normalize_soft(text)).translate(_LOOKALIKES)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a character of a script without spaces: text[start:end] of its line."""

    line: int
    start: int
    end: int
    skeleton: str


class PageTokens:
    """Tokens of all lines in reading order, each matched or not; a span is a range of them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.tokens = [token for index in range(len(lines)) for token in self._split(index)]
        self._matched = [False] * len(self.tokens)

    def _split(self, line: int) -> Iterator[Token]:
        for match in _TOKEN.finditer(self._lines[line]):
            yield Token(line, match.start(), match.end(), to_skeleton(match[0]))

    def text(self, span: range) -> str:
        """Return the text of a span, its lines joined by a space unless the script has none."""
        parts = []
        for line, group in itertools.groupby(span, key=lambda index: self.tokens[index].line):
            indexes = list(group)
            start, end = self.tokens[indexes[0]].start, self.tokens[indexes[-1]].end
            parts.append(self._lines[line][start:end])
        return _join_parts(parts)

    def is_unmatched(self, span: range) -> bool:
        """Tell whether no token of a span is matched."""
        return not any(self._matched[index] for index in span)

    def mark_as_matched(self, span: range) -> None:
        """Mark all tokens of a span as matched."""
        for index in span:
            self._matched[index] = True

    def find(self, text: str) -> Iterator[range]:
        """Find unmatched spans with the same skeleton as a text; whole lines first."""
        skeleton = to_skeleton(text)
        found = [
            span
            for start in self._iterate_unmatched_indexes()
            for span in self._find_spans_from(start, skeleton)
        ]
        yield from sorted(found, key=lambda span: not self._has_whole_lines(span))

    def _iterate_unmatched_indexes(self) -> Iterator[int]:
        return (index for index, matched in enumerate(self._matched) if not matched)

    def _find_spans_from(self, start: int, skeleton: str) -> Iterator[range]:
        """Find the spans that begin with a token and have this skeleton.

        There may be several, because punctuation has an empty skeleton: "Prix" and "Prix :".
        """
        joined = ""
        for index in range(start, len(self.tokens)):
            joined += self.tokens[index].skeleton
            if self._matched[index] or not skeleton.startswith(joined):
                return
            if joined == skeleton:
                yield range(start, index + 1)

    def _has_whole_lines(self, span: range) -> bool:
        before = self.tokens[span.start - 1].line if span.start else -1
        after = self.tokens[span.stop].line if span.stop < len(self.tokens) else -1
        return before != self.tokens[span.start].line and after != self.tokens[span[-1]].line

    def unmatched_runs(self) -> list[range]:
        """Return the maximal unmatched spans within single lines."""
        runs = []
        # Within a run, the difference between index and ordinal number is constant.
        for _, group in itertools.groupby(
            enumerate(self._iterate_unmatched_indexes()), key=self._run_key
        ):
            indexes = [index for _, index in group]
            runs.append(range(indexes[0], indexes[-1] + 1))
        return runs

    def _run_key(self, numbered_index: tuple[int, int]) -> tuple[int, int]:
        number, index = numbered_index
        return self.tokens[index].line, index - number

    def unmatched_spans(self) -> list[range]:
        """Return the unmatched runs, and the spans of adjacent ones over several lines."""
        runs = self.unmatched_runs()
        spans = []
        for first in range(len(runs)):
            for last in range(first, min(first + MAX_LINES_PER_SPAN, len(runs))):
                if last > first and runs[last].start != runs[last - 1].stop:
                    break
                spans.append(range(runs[first].start, runs[last].stop))
        return spans


def _join_parts(parts: Sequence[str]) -> str:
    text = ""
    for part in parts:
        spaceless = text and regex.search(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]$", text)
        text += part if not text or spaceless else f" {part}"
    return text


# Below this similarity, two strings are unrelated.
MIN_SIMILARITY = 0.4
# Share of a truncated string that may be misread.
MAX_MISREAD_SHARE = 0.15
MIN_CUT_LENGTH = 3
_GRAPHEME = regex.compile(r"\X")
_CUT_MARK = regex.compile(r"[\s.…·]+$")


class Verdict(enum.StrEnum):
    """How a string of the page relates to an expected one; extra: it was not expected."""

    MATCH = "match"
    SOFT_MATCH = "soft match"
    MISSING = "missing"
    TRUNCATED = "truncated"
    DIFFERENT = "different"
    EXTRA = "extra"


class Change(enum.StrEnum):
    """Kind of a diff piece."""

    SAME = "same"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class DiffSegment:
    """A part of a diff: in both texts, only in the expected one, or only in the other."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class StringMatch:
    """An expected string and its match; tokens is None if it is missing."""

    verdict: Verdict
    expected: str
    found: str
    tokens: range | None

    @property
    def diff(self) -> tuple[DiffSegment, ...]:
        """Diff of the expected and the found text."""
        return diff(self.expected, self.found)


# Kinds of equality, strictest first.
_EQUALITIES = (
    (normalization.normalize_strict, Verdict.MATCH),
    (fold_lookalikes, Verdict.MATCH),
    (normalization.normalize_soft, Verdict.SOFT_MATCH),
    (to_skeleton, Verdict.SOFT_MATCH),
)


def split_graphemes(text: str) -> list[str]:
    """Split a text into graphemes, the characters that a reader sees."""
    return _GRAPHEME.findall(text)


def diff(expected: str, found: str) -> tuple[DiffSegment, ...]:
    """Compare two texts by graphemes, after strict normalization."""
    left = split_graphemes(normalization.normalize_strict(expected))
    right = split_graphemes(normalization.normalize_strict(found))
    pieces = []
    for step in Levenshtein.opcodes(left, right):
        missing = "".join(left[step.src_start : step.src_end])
        extra = "".join(right[step.dest_start : step.dest_end])
        if step.tag == "equal":
            pieces.append(DiffSegment(Change.SAME, missing))
        else:
            pieces += [DiffSegment(Change.MISSING, missing), DiffSegment(Change.EXTRA, extra)]
    return tuple(piece for piece in pieces if piece.text)


def compare(expected: Sequence[str], page: PageTokens) -> list[StringMatch]:
    """Return the match of each expected string in order, followed by the extra text."""
    return _Comparison(expected, page).run()


class _Comparison:
    """Matches strings, the most certain first; each token belongs to at most one string."""

    def __init__(self, expected: Sequence[str], page: PageTokens) -> None:
        self._expected = expected
        self._page = page
        self._matches: dict[int, StringMatch] = {}

    def run(self) -> list[StringMatch]:
        for key, verdict in _EQUALITIES:
            self._match_equal(key, verdict)
        self._match_similar()
        for index in self._list_unmatched_strings():
            missing = StringMatch(Verdict.MISSING, self._expected[index], "", None)
            self._matches[index] = missing
        extra = [
            StringMatch(Verdict.EXTRA, "", self._page.text(run), run)
            for run in self._page.unmatched_runs()
        ]
        return [*(self._matches[index] for index in range(len(self._expected))), *extra]

    def _list_unmatched_strings(self) -> list[int]:
        """List the strings without a match, longest first: they are the least ambiguous."""
        unmatched = (index for index in range(len(self._expected)) if index not in self._matches)
        return sorted(unmatched, key=lambda index: -len(self._expected[index]))

    def _match_equal(self, key: Callable[[str], str], verdict: Verdict) -> None:
        for index in self._list_unmatched_strings():
            expected = self._expected[index]
            for span in self._page.find(expected):
                found = self._page.text(span)
                if key(found) == key(expected):
                    self._add_match(index, StringMatch(verdict, expected, found, span))
                    break

    def _match_similar(self) -> None:
        """Match the remaining strings and text, the most similar first."""
        pairs = sorted(self._find_similar_pairs(), key=lambda pair: -pair[0])
        for _, index, match in pairs:
            if (
                index not in self._matches
                and match.tokens
                and self._page.is_unmatched(match.tokens)
            ):
                self._add_match(index, match)

    def _find_similar_pairs(self) -> Iterator[tuple[float, int, StringMatch]]:
        spans = [(span, self._page.text(span)) for span in self._page.unmatched_spans()]
        for index, (span, found) in itertools.product(self._list_unmatched_strings(), spans):
            expected = self._expected[index]
            rating = rate_similarity(expected, found)
            if rating is not None:
                yield rating[0], index, StringMatch(rating[1], expected, found, span)

    def _add_match(self, index: int, match: StringMatch) -> None:
        self._matches[index] = match
        if match.tokens is not None:
            self._page.mark_as_matched(match.tokens)


def rate_similarity(expected: str, found: str) -> tuple[float, Verdict] | None:
    """Return the similarity of two unequal texts (0 to 1) and the verdict; None if unrelated."""
    left, right = _split_skeleton(expected), _split_skeleton(found)
    # Skip the comparison if the length alone rules out similarity.
    if len(right) * MIN_SIMILARITY > len(left):
        return None
    similarity = Levenshtein.normalized_similarity(left, right)
    if _is_truncated(left, right):
        return max(similarity, MIN_SIMILARITY), Verdict.TRUNCATED
    return (similarity, Verdict.DIFFERENT) if similarity >= MIN_SIMILARITY else None


@functools.lru_cache(maxsize=4096)
def _split_skeleton(text: str) -> tuple[str, ...]:
    """Return the graphemes of a text's skeleton without trailing dots; cached, as it is reused."""
    return tuple(split_graphemes(to_skeleton(_CUT_MARK.sub("", text))))


def _is_truncated(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Tell whether part is the beginning or end of whole, with a few misread letters."""
    length = len(part)
    if not MIN_CUT_LENGTH <= length < len(whole):
        return False
    return _is_prefix(whole[:length], part) or _is_prefix(whole[-length:][::-1], part[::-1])


def _is_prefix(prefix: Sequence[str], part: Sequence[str]) -> bool:
    # The last letter may be cut in half, so it is not compared.
    allowed = int(MAX_MISREAD_SHARE * len(part))
    return Levenshtein.distance(prefix[:-1], part[:-1], score_cutoff=allowed) <= allowed
