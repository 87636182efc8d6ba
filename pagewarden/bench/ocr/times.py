"""Where the time of a page goes in our pipeline, in seconds of CPU on one core."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pagewarden.reading import engine, engines, limits, opening, order, upright

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pagewarden.bench.ocr import corpus

P = ParamSpec("P")
T = TypeVar("T")

# The steps are much the same on every page; so many take a minute or two.
PAGES = 20

STEPS = ("open", "straighten", "recognise", "order")


class Clock:
    """Adds up the seconds of each step."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(STEPS, 0.0)

    def time(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do some work, and note how long it took."""
        begun = time.process_time()
        result = work(*args, **kwargs)
        self.spent[step] += time.process_time() - begun
        return result


def measure(
    name: str, profile: str, pages: Sequence[corpus.Page], announce: Callable[[str], None]
) -> Mapping[str, float]:
    """Read the pages one by one in this process, and add up the seconds of each step."""
    clock = Clock()
    reader = engines.make(name, profile)
    for page in pages:
        image = clock.time("open", _open, page.path)
        straight = clock.time("straighten", upright.straighten, image)
        hints = engine.Hints((page.language,))
        found = clock.time("recognise", reader.recognise, straight.image, hints)
        clock.time("order", order.in_reading_order, found.lines)
        announce(page.name)
    return clock.spent


def _open(path: Path) -> engine.PageImage:
    document = opening.open_document(path, limits.Limits())
    try:
        return document.page(1).render()
    finally:
        document.close()
