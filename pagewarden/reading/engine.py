"""What every engine is: an image in, lines with text, box and confidence out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page to read: grey (height, width) or RGB (height, width, 3), 8 bits, with its resolution.

    dpi is a guess where the file does not say.
    """

    pixels: NDArray[np.uint8]
    dpi: float

    @property
    def width(self) -> int:
        """Count the columns."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Count the rows."""
        return int(self.pixels.shape[0])


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known of a page before it is read.

    languages are codes of ISO 639-3 ('deu', 'fra'), or those of Tesseract ('frk'), best first;
    empty when nobody said.
    """

    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recognised:
    """The lines an engine found, in its own order, and what they cost."""

    lines: Sequence[pages.Line]
    usage: pages.Usage = field(default_factory=pages.Usage)


class Engine(Protocol):
    """Reads one upright page image at a time; made once per process, used for many pages."""

    @property
    def name(self) -> str:
        """Name the engine as settings and documents do."""
        ...

    @property
    def version(self) -> str:
        """Name the version of program and models: pages of two versions never mix."""
        ...

    def recognise(self, image: PageImage, hints: Hints) -> Recognised:
        """Find and read the lines; raises an error of pagewarden.errors."""
        ...
