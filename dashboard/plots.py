"""Small plots: numbers become the rectangles and lines of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 480
HEIGHT = 96
_GAP = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle, in units of the plot, origin top left; label says what it stands for."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, what it says, for those who do not see it, and where it begins."""

    title: str
    summary: str
    bars: tuple[Bar, ...]
    bad_bars: tuple[Bar, ...] = ()
    first: str = ""
    width: int = WIDTH
    height: int = HEIGHT


def bars(
    title: str, summary: str, values: Sequence[tuple[str, float, float]], unit: str = ""
) -> Plot:
    """Draw one bar for each (label, value, bad value); the bad ones stand on the good ones."""
    tallest = max((good + bad for _, good, bad in values), default=0) or 1
    step = WIDTH / max(len(values), 1)
    good_bars, bad_bars = [], []
    for number, (label, good, bad) in enumerate(values):
        x, width = step * (number + _GAP / 2), step * (1 - _GAP)
        low, high = HEIGHT * good / tallest, HEIGHT * bad / tallest
        said = f"{label}: {good:g}{unit}" + (f", {bad:g} given up" if bad else "")
        good_bars.append(_bar(x, HEIGHT - low, width, low, said))
        if bad:
            bad_bars.append(_bar(x, HEIGHT - low - high, width, high, said))
    first = values[0][0] if values else ""
    return Plot(title, summary, tuple(good_bars), tuple(bad_bars), first)


def _bar(x: float, y: float, width: float, height: float, label: str) -> Bar:
    return Bar(round(x, 2), round(y, 2), round(width, 2), round(height, 2), label)
