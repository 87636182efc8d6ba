"""Which pages of a document are wanted, written "1-3,7,12-"."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LAST = 10**9
_SPAN = re.compile(r"\s*(\d{1,9})\s*(-\s*(\d{1,9})?)?\s*", re.ASCII)

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Page numbers from 1 on, as pairs of first and last: in order, and never side by side."""

    spans: tuple[_Span, ...]

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect.bisect_right(self.spans, (number, _LAST)) - 1
        return at >= 0 and number <= self.spans[at][1]

    def __str__(self) -> str:
        return ",".join(map(_written, self.spans))

    def others(self) -> Ranges:
        """Give all pages that are not among these."""
        begins = [1, *(last + 1 for _, last in self.spans)]
        ends = [*(first - 1 for first, _ in self.spans), _LAST]
        pairs = zip(begins, ends, strict=True)
        return Ranges(tuple((first, last) for first, last in pairs if first <= last))


ALL = Ranges(((1, _LAST),))


def parse(text: str) -> Ranges:
    """Read what somebody wrote; ValueError says how to write it."""
    return Ranges(tuple(_joined(sorted(map(_span, text.split(","))))))


def without(done: Iterable[int]) -> Ranges:
    """Give all pages but these."""
    return Ranges(tuple(_joined((number, number) for number in sorted(set(done))))).others()


def _span(text: str) -> _Span:
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:20]!r} is no range of pages; write them like this: 1-3,7,12-")
    first = int(found[1])
    last = int(found[3] or _LAST) if found[2] else first
    if not 1 <= first <= last:
        raise ValueError(
            f"there is no page from {first} to {last}: they count from 1, the lower number first"
        )
    return first, last


def _joined(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Make one of what overlaps or touches; they come in order."""
    open_span: _Span | None = None
    for first, last in spans:
        if open_span is None:
            open_span = first, last
        elif first <= open_span[1] + 1:
            open_span = open_span[0], max(open_span[1], last)
        else:
            yield open_span
            open_span = first, last
    if open_span is not None:
        yield open_span


def _written(span: _Span) -> str:
    first, last = span
    if last == _LAST:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"
