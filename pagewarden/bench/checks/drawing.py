"""Draw screens: a bar with a title, rows of text, buttons; light or dark, small or large."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden import errors
from pagewarden.reading import pages

if TYPE_CHECKING:
    from pagewarden.bench.checks import planting

FONTS = ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif.ttf")
SIZES = (24, 28, 32)
MARGIN = 40


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a screen."""

    paper: str
    ink: str
    bar: str
    button: str
    on_colour: str = "white"


THEMES = (
    Theme("white", "#202124", "#1a56b0", "#1a56b0"),
    Theme("#f3f3f6", "#111111", "#343a46", "#0a7048"),
    Theme("#15171c", "#e8e8ea", "#262a33", "#3355aa"),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, and where on it each row stands; None for one that is not drawn."""

    image: Image.Image
    boxes: tuple[pages.Box | None, ...]


@functools.cache
def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Load a font that systems have; Pillow knows where they keep theirs."""
    try:
        return ImageFont.truetype(name, size)
    except OSError as exc:
        raise errors.SettingsError(
            f"the font {name} is missing; install DejaVu and Liberation fonts"
        ) from exc


def draw(screen: planting.Screen) -> Drawn:
    """Draw a screen; its number decides how it looks."""
    theme = THEMES[screen.style % len(THEMES)]
    face = font(FONTS[screen.style // 2 % len(FONTS)], SIZES[screen.style // 3 % len(SIZES)])
    widest = max(face.getlength(row.drawn or "") for row in screen.rows)
    step = int(face.size * 3)
    size = (int(widest) + 4 * MARGIN, step * (len(screen.rows) + 1))
    image = Image.new("RGB", size, theme.paper)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, size[0], step), fill=theme.bar)
    boxes = [
        _row(pen, row, face, theme, (index, step, size[0])) for index, row in enumerate(screen.rows)
    ]
    return Drawn(image, tuple(boxes))


def _row(
    pen: ImageDraw.ImageDraw,
    row: planting.Row,
    face: ImageFont.FreeTypeFont,
    theme: Theme,
    place: tuple[int, int, int],
) -> pages.Box | None:
    """Draw one row: the first on the bar, every third on a button."""
    index, step, width = place
    if row.drawn is None:
        return None
    top = index * step + (step - face.size) / 2 + (step / 2 if index else 0)
    length = face.getlength(row.drawn)
    left = width - length * 0.7 if row.overflows else MARGIN
    on_colour = index == 0 or (index % 3 == 0 and not row.overflows)
    if index and on_colour:
        frame = (left - 16, top - 14, left + length + 16, top + face.size + 18)
        pen.rounded_rectangle(frame, radius=10, fill=theme.button)
    pen.text((left, top), row.drawn, font=face, fill=theme.on_colour if on_colour else theme.ink)
    return pages.Box(left, top, min(left + length, width), top + face.size * 1.2)
