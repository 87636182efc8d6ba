"""What is shown of a result beside its text: issues in a frame, and strings with their diffs.

A result is a mapping in the form in which the API gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden.checks import comparing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a picture, with the numbers of the issues that are seen there, from 1.

    x and y are where to write them: above the place, or inside where nothing is above.
    """

    points: str
    numbers: Sequence[int]
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Frame:
    """What is drawn of a picture, in its pixels; size is that of the numbers in it."""

    left: float
    top: float
    width: float
    height: float
    size: float
    marks: Sequence[Mark]


def frame(result: Mapping[str, Any]) -> Frame | None:
    """Frame the picture and the issues in it; where its size is not known, the issues alone."""
    seen: dict[tuple[tuple[float, float], ...], list[int]] = {}
    for number, issue in enumerate(result.get("issues") or (), start=1):
        if issue.get("quad"):
            seen.setdefault(tuple((x, y) for x, y in issue["quad"]), []).append(number)
    if not seen:
        return None
    points = [point for quad in seen for point in quad]
    right = result.get("width") or max(x for x, _ in points)
    bottom = result.get("height") or max(y for _, y in points)
    size = max(right, bottom, 1) / 24
    left, top = (min(0, *(point[axis] for point in points)) for axis in (0, 1))
    marks = [_mark(quad, numbers, size) for quad, numbers in seen.items()]
    return Frame(left, top, max(right - left, 1), max(bottom - top, 1), size, marks)


def _mark(quad: Sequence[tuple[float, float]], numbers: Sequence[int], size: float) -> Mark:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in quad)
    x, y = min(x for x, _ in quad), min(y for _, y in quad)
    return Mark(points, numbers, x, max(y - size / 4, size))


def expected(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """List what should be there, with verdicts and diffs where there are any."""
    if result.get("strings") is not None:
        return [one | {"diff": _diff(one)} for one in result["strings"]]
    return [
        {"expected": text, "verdict": None, "diff": ()} for text in result.get("reference") or ()
    ]


def _diff(one: Mapping[str, Any]) -> Sequence[comparing.Piece]:
    shown = one["found"] and one["verdict"] != comparing.Verdict.MATCH
    return comparing.diff(one["expected"], one["found"]) if shown else ()
