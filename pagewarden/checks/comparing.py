"""Find every expected string in what was read, and say how well it is there.

Strings are found wherever they stand: as a line, as a part of one, or over several lines. Lengths
and differences are counted in graphemes, the characters that a reader sees.
"""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex
from rapidfuzz.distance import Levenshtein

from pagewarden.checks import normalizing, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Below this share of equal graphemes two strings have nothing to do with each other.
ALIKE = 0.4
# How much of a string's beginning may be misread for it to be the same one, cut short.
MISREAD = 0.15
SHORTEST_CUT = 3
_GRAPHEME = regex.compile(r"\X")
_CUT_MARK = regex.compile(r"[\s.…·]+$")


class Verdict(enum.StrEnum):
    """How an expected string is there; extra is what nobody expected."""

    MATCH = "match"
    SOFT_MATCH = "soft match"
    MISSING = "missing"
    TRUNCATED = "truncated"
    DIFFERENT = "different"
    EXTRA = "extra"


class Change(enum.StrEnum):
    """What a piece of a diff is."""

    SAME = "same"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a diff: it stands in both texts, only in the expected one, or only in the other."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A string and how it is there; tokens says where, and is None when it is missing."""

    verdict: Verdict
    expected: str
    found: str
    tokens: range | None

    @property
    def diff(self) -> tuple[Piece, ...]:
        """Say what stands in both, and what in one of them only."""
        return diff(self.expected, self.found)


# How texts may be equal, best first.
_KEYS = (
    (normalizing.normalize_strict, Verdict.MATCH),
    (spans.seen, Verdict.MATCH),
    (normalizing.normalize_soft, Verdict.SOFT_MATCH),
    (spans.skeleton, Verdict.SOFT_MATCH),
)


def graphemes(text: str) -> list[str]:
    """Split a text into the characters that a reader sees."""
    return _GRAPHEME.findall(text)


def diff(expected: str, found: str) -> tuple[Piece, ...]:
    """Compare two texts grapheme by grapheme, after strict normalising."""
    left = graphemes(normalizing.normalize_strict(expected))
    right = graphemes(normalizing.normalize_strict(found))
    pieces = []
    for step in Levenshtein.opcodes(left, right):
        here = "".join(left[step.src_start : step.src_end])
        there = "".join(right[step.dest_start : step.dest_end])
        if step.tag == "equal":
            pieces.append(Piece(Change.SAME, here))
        else:
            pieces += [Piece(Change.MISSING, here), Piece(Change.EXTRA, there)]
    return tuple(piece for piece in pieces if piece.text)


def compare(expected: Sequence[str], page: spans.Page) -> list[Judged]:
    """Judge each expected string, in their order; then what else is there, as extra."""
    return _Comparison(expected, page).run()


class _Comparison:
    """Takes the surest finds first; a token belongs to one string only."""

    def __init__(self, expected: Sequence[str], page: spans.Page) -> None:
        self._expected = expected
        self._page = page
        self._judged: dict[int, Judged] = {}

    def run(self) -> list[Judged]:
        for key, verdict in _KEYS:
            self._find_equal(key, verdict)
        self._find_alike()
        for index in self._open():
            missing = Judged(Verdict.MISSING, self._expected[index], "", None)
            self._judged[index] = missing
        extra = [
            Judged(Verdict.EXTRA, "", self._page.text(run), run) for run in self._page.free_runs()
        ]
        return [*(self._judged[index] for index in range(len(self._expected))), *extra]

    def _open(self) -> list[int]:
        """List the strings not yet judged, long ones first: they are harder to mistake."""
        left = (index for index in range(len(self._expected)) if index not in self._judged)
        return sorted(left, key=lambda index: -len(self._expected[index]))

    def _find_equal(self, key: Callable[[str], str], verdict: Verdict) -> None:
        for index in self._open():
            wanted = self._expected[index]
            for span in self._page.find(wanted):
                found = self._page.text(span)
                if key(found) == key(wanted):
                    self._settle(index, Judged(verdict, wanted, found, span))
                    break

    def _find_alike(self) -> None:
        """Pair what is left, the most alike first."""
        pairs = sorted(self._pairs(), key=lambda pair: -pair[0])
        for _, index, judged in pairs:
            if index not in self._judged and judged.tokens and self._page.is_free(judged.tokens):
                self._settle(index, judged)

    def _pairs(self) -> Iterator[tuple[float, int, Judged]]:
        stretches = [(run, self._page.text(run)) for run in self._page.free_stretches()]
        for index, (run, found) in itertools.product(self._open(), stretches):
            wanted = self._expected[index]
            rating = rate(wanted, found)
            if rating is not None:
                yield rating[0], index, Judged(rating[1], wanted, found, run)

    def _settle(self, index: int, judged: Judged) -> None:
        self._judged[index] = judged
        if judged.tokens is not None:
            self._page.take(judged.tokens)


def rate(expected: str, found: str) -> tuple[float, Verdict] | None:
    """Say how alike two unequal texts are, 0 to 1, and what became of the expected one."""
    left, right = _bones(expected), _bones(found)
    if len(right) * ALIKE > len(left):  # too long to be alike, so that it need not be compared
        return None
    alike = Levenshtein.normalized_similarity(left, right)
    if _is_cut(left, right):
        return max(alike, ALIKE), Verdict.TRUNCATED
    return (alike, Verdict.DIFFERENT) if alike >= ALIKE else None


@functools.lru_cache(maxsize=4096)
def _bones(text: str) -> tuple[str, ...]:
    """Take a text apart, without dots at its end; each is compared with many."""
    return tuple(graphemes(spans.skeleton(_CUT_MARK.sub("", text))))


def _is_cut(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Tell whether part is an end of whole; its last letter may be half of one, and misread."""
    length = len(part)
    if not SHORTEST_CUT <= length < len(whole):
        return False
    return _is_end(whole[:length], part) or _is_end(whole[-length:][::-1], part[::-1])


def _is_end(end: Sequence[str], part: Sequence[str]) -> bool:
    allowed = int(MISREAD * len(part))
    return Levenshtein.distance(end[:-1], part[:-1], score_cutoff=allowed) <= allowed
