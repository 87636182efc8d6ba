"""Pages chosen by the user, such as 1-3,7,10-."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pagewarden.ocr_command import inputs

_PART = re.compile(r"(?P<first>\d+)?(?P<dash>-)?(?P<last>\d+)?")


@dataclass(frozen=True, slots=True)
class Unchosen:
    """All pages but those in the ranges, which include both their ends."""

    ranges: tuple[tuple[float, float], ...]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and not any(
            first <= number <= last for first, last in self.ranges
        )


def parse(text: str) -> Unchosen:
    """Understand what the user typed."""
    return Unchosen(tuple(_range(part.strip()) for part in text.split(",")))


def _range(part: str) -> tuple[float, float]:
    match = _PART.fullmatch(part)
    if match is None or not (match["first"] or match["last"]):
        raise _wrong(part)
    first = int(match["first"] or 1)
    last = int(match["last"]) if match["last"] else float("inf") if match["dash"] else first
    if not 1 <= first <= last:
        raise _wrong(part)
    return first, last


def _wrong(part: str) -> inputs.Wrong:
    return inputs.Wrong(f"{part!r} names no pages; say 3, 1-3, 10- or several of these: 1-3,10-")
