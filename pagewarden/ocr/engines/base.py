"""The protocol of all engines: an image in, lines with text, box and confidence out.

Some engines can do more; the protocols named `Supports…` describe these optional abilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pagewarden.ocr.lines import crops

Permit = Callable[[str], float]
"""Reserves the next call to the named engine and returns how many seconds to wait first."""


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page image: grey (height, width) or RGB (height, width, 3), 8 bits, with its resolution.

    dpi is a guess if the file does not state it.
    """

    pixels: NDArray[np.uint8]
    dpi: float

    @property
    def width(self) -> int:
        """The width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """The height in pixels."""
        return int(self.pixels.shape[0])


@dataclass(frozen=True, slots=True)
class PageHints:
    """Information about a page before it is read.

    languages are codes of ISO 639-3 ('deu', 'fra') or of Tesseract ('frk'), most likely first;
    empty if unknown.
    """

    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecognitionResult:
    """The lines that an engine found, in the order of the engine, and what they cost."""

    lines: Sequence[pages.Line]
    usage: pages.Usage = field(default_factory=pages.Usage)


class Engine(Protocol):
    """Reads one upright page image at a time; loaded once per process, used for many pages."""

    @property
    def name(self) -> str:
        """The name that settings and documents use."""
        ...

    @property
    def version(self) -> str:
        """The version of program and models; no document mixes pages of two versions."""
        ...

    def recognise(self, image: PageImage, hints: PageHints) -> RecognitionResult:
        """Find and read the lines; raises an error of `pagewarden.errors`."""
        ...


@runtime_checkable
class SupportsPrepare(Protocol):
    """An engine that loads some models only when it knows what it will read."""

    def prepare(self, hints: PageHints) -> None:
        """Load the models for pages with these hints, so that forked children share them."""
        ...


@runtime_checkable
class SupportsPermit(Protocol):
    """An engine behind a rate limit that is shared by several processes."""

    def set_permit(self, permit: Permit) -> None:
        """Call `permit` before each request, from any thread, and wait as long as it returns."""
        ...


@runtime_checkable
class SupportsReadLines(Protocol):
    """An engine that can also read lines that the caller has found and cut out."""

    def read_lines(self, lines: Sequence[crops.Crop], hints: PageHints) -> list[crops.LineReading]:
        """Read lines of one page; raises an error of `pagewarden.errors`."""
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """An engine that holds resources, such as connections, that must be released."""

    def close(self) -> None:
        """Release the resources and cancel calls in progress."""
        ...
