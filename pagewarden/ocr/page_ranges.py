"""Page ranges such as "1-3,7,12-": parse, format and combine them."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LAST_PAGE = 10**9
_SPAN = re.compile(r"\s*(\d{1,9})\s*(-\s*(\d{1,9})?)?\s*", re.ASCII)

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PageRanges:
    """Page numbers, counted from 1, as sorted pairs of first and last that never touch."""

    spans: tuple[_Span, ...]

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect.bisect_right(self.spans, (number, _LAST_PAGE)) - 1
        return index >= 0 and number <= self.spans[index][1]

    def __str__(self) -> str:
        return ",".join(map(_format, self.spans))

    def complement(self) -> PageRanges:
        """Return all other pages."""
        starts = [1, *(last + 1 for _, last in self.spans)]
        ends = [*(first - 1 for first, _ in self.spans), _LAST_PAGE]
        pairs = zip(starts, ends, strict=True)
        return PageRanges(tuple((first, last) for first, last in pairs if first <= last))


ALL = PageRanges(((1, _LAST_PAGE),))


def parse(text: str) -> PageRanges:
    """Parse page ranges; a ValueError explains the syntax."""
    return PageRanges(tuple(_merge(sorted(map(_parse_span, text.split(","))))))


def all_except(numbers: Iterable[int]) -> PageRanges:
    """Return all pages but these."""
    spans = _merge((number, number) for number in sorted(set(numbers)))
    return PageRanges(tuple(spans)).complement()


def _parse_span(text: str) -> _Span:
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:20]!r} is not a page range; use page ranges such as 1-3,7,12-")
    first = int(found[1])
    last = int(found[3] or _LAST_PAGE) if found[2] else first
    if not 1 <= first <= last:
        raise ValueError(
            f"the page range {text.strip()!r} is invalid: page numbers begin at 1, and the lower "
            "number comes first"
        )
    return first, last


def _merge(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Merge sorted spans that overlap or touch."""
    current: _Span | None = None
    for first, last in spans:
        if current is None:
            current = first, last
        elif first <= current[1] + 1:
            current = current[0], max(current[1], last)
        else:
            yield current
            current = first, last
    if current is not None:
        yield current


def _format(span: _Span) -> str:
    first, last = span
    if last == _LAST_PAGE:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"
