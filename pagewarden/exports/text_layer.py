"""Invisible text over the words of a page, as a content stream."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, NamedTuple

from pagewarden.exports import glyphless, tidy
from pagewarden.reading import bidi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pikepdf

    from pagewarden.exports import geometry
    from pagewarden.reading import pages

# A word that leans by less, in degrees, is drawn upright in the box around it: Poppler takes
# letters whose baselines differ by half a point for separate words, and tears long words to
# pieces on a page that leans by as little as 3 degrees.
_LEANING = 15
_THINNEST = 0.01


class Laid(NamedTuple):
    """Where a word lies: its lower left corner, how it runs, how it stands; x + y * 1j."""

    origin: complex
    along: complex
    up: complex


def content(
    page: pages.ReadPage, frame: geometry.Frame, font: glyphless.Font, name: pikepdf.Name
) -> bytes:
    """Write the words of a tidied page; the stream leaves the graphics state as it was."""
    words = [command for line in page.lines for command in _line(line, frame, font)]
    return "\n".join(["q BT 3 Tr", f"{name} 1 Tf", *words, "ET Q", ""]).encode("ascii")


def _line(line: pages.Line, frame: geometry.Frame, font: glyphless.Font) -> Iterator[str]:
    spaced = list(tidy.spaced(line))
    space_follows = [space for space, _ in spaced[1:]] + [False]
    for (_, word), space in zip(spaced, space_follows, strict=True):
        corners = [complex(*frame.point(corner)) for corner in word.quad]
        yield _word(word.text, _laid(corners), font, space=space)


def _word(text: str, laid: Laid, font: glyphless.Font, *, space: bool) -> str:
    """Lay the letters exactly over the word, and the space that follows them beyond it."""
    letter = laid.along / len(text)
    origin = laid.origin - laid.up * glyphless.DESCENT / glyphless.UNITS
    if bidi.runs_leftwards(text):
        origin -= letter * space
        # Readers see where letters stand, and turn such scripts round.
        text = " " * space + bidi.turned(text)
    else:
        text += " " * space
    across = letter * glyphless.UNITS / glyphless.WIDTH
    numbers = " ".join(f"{_number(it.real)} {_number(it.imag)}" for it in (across, laid.up, origin))
    return f"{numbers} Tm {font.encode(text)} Tj"


def _laid(corners: Sequence[complex]) -> Laid:
    top_left, top_right, bottom_right, bottom_left = corners
    along = (top_right - top_left + bottom_right - bottom_left) / 2
    quarters = round(cmath.phase(along) / (math.pi / 2))
    turn = 1j**quarters
    if abs(math.degrees(cmath.phase(along / turn))) < _LEANING:
        return _upright([corner / turn for corner in corners], turn)
    up = (top_left - bottom_left + top_right - bottom_right) / 2
    if abs((along.conjugate() * up).imag) < _THINNEST * abs(along):
        up = 1j * along / abs(along) * _THINNEST
    return Laid(sum(corners) / 4 - (along + up) / 2, along, up)


def _upright(corners: Sequence[complex], turn: complex) -> Laid:
    """Do the same for the box around corners that were turned back, and turn it again."""
    xs, ys = [corner.real for corner in corners], [corner.imag for corner in corners]
    width, height = max(max(xs) - min(xs), _THINNEST), max(max(ys) - min(ys), _THINNEST)
    return Laid(complex(min(xs), min(ys)) * turn, width * turn, 1j * height * turn)


def _number(value: float) -> str:
    return f"{value:.5f}".rstrip("0").rstrip(".")
