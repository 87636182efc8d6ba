"""Screens in ten languages with planted faults: what should be there, what a check has to find.

Every language has the same screens with the same faults: half of them come with references, half
are checked for their language and for faults in the text itself.
"""

from __future__ import annotations

import functools
import json
import random
import unicodedata
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden import errors
from pagewarden.checks import languages
from pagewarden.checks.report import Kind
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


STRINGS = 7
NO_SUCH_GLYPH = "\U0010fffd"
_PLACEHOLDERS = ("{name}", "%s", "{{count}}", "%1$s", "{0}", "$t(title)", "${user}")


@dataclass(frozen=True, slots=True)
class Row:
    """A string on a screen: drawn as it is, expected otherwise where a fault is planted.

    Nothing is drawn of one that is missing, and nothing expected of one too many.
    """

    drawn: str | None
    expected: str | None
    fault: Kind | None = None
    overflows: bool = False


@dataclass(frozen=True, slots=True)
class Screen:
    """A picture to draw, with references or without."""

    name: str
    language: str
    rows: tuple[Row, ...]
    has_references: bool
    style: int

    @property
    def expected(self) -> list[str] | None:
        """Give the strings that should be on it, if they are known."""
        if not self.has_references:
            return None
        return [row.expected for row in self.rows if row.expected is not None]


@dataclass(frozen=True, slots=True)
class _Plan:
    fault: Kind | None
    has_references: bool


_WITH = (
    None, None, None, Kind.SOFT_MATCH, Kind.MISSING, Kind.TRUNCATED, Kind.TRUNCATED,
    Kind.DIFFERENT, Kind.DIFFERENT, Kind.EXTRA,
)  # fmt: skip
_WITHOUT = (
    None, None, None, Kind.UNTRANSLATED, Kind.UNTRANSLATED, Kind.WRONG_LANGUAGE,
    Kind.PLACEHOLDER, Kind.MOJIBAKE, Kind.MISSING_GLYPH, Kind.CUT_OFF,
)  # fmt: skip
PLANS = tuple(
    plan
    for pair in zip(_WITH, _WITHOUT, strict=True)
    for plan in (_Plan(pair[0], True), _Plan(pair[1], False))
)


def phrases() -> dict[str, list[str]]:
    """Load the strings of a made-up program, the same ones in each language."""
    text = resources.files(__package__).joinpath("phrases.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found


def screens(count: int, seed: int) -> Iterator[Screen]:
    """Make so many screens, each language in its turn."""
    known = phrases()
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")  # noqa: S311  # no secret
        language = list(known)[number % len(known)]
        # 7 rounds on each time: every language has every plan, and few screens have most of them.
        plan = PLANS[(7 * (number // len(known)) + number) % len(PLANS)]
        name = f"{number:03}-{language}-{plan.fault or 'clean'}".replace(" ", "-")
        rows = _planted(_rows(known[language], chance), plan.fault, language, chance)
        yield Screen(name, language, rows, plan.has_references, number)


def _rows(strings: list[str], chance: random.Random) -> list[Row]:
    return [Row(text, text) for text in chance.sample(strings, STRINGS)]


def _planted(
    rows: list[Row], fault: Kind | None, language: str, chance: random.Random
) -> tuple[Row, ...]:
    if fault is None:
        return tuple(rows)
    if fault is Kind.UNTRANSLATED and language == languages.ENGLISH:
        fault = Kind.WRONG_LANGUAGE
    index = _fit(rows, fault, chance)
    planted = replace(_FAULTS[fault](rows[index], language, chance), fault=fault)
    if fault is Kind.EXTRA:
        return (*rows[:index], planted, *rows[index:])
    return (*rows[:index], planted, *rows[index + 1 :])


def _fit(rows: list[Row], fault: Kind, chance: random.Random) -> int:
    """Choose a row in which the fault can be: mojibake needs a letter that ASCII lacks."""
    needs_letter = fault in {Kind.MOJIBAKE, Kind.MISSING_GLYPH}
    fit = [
        index
        for index, row in enumerate(rows)
        if not needs_letter or not (row.drawn or "").isascii()
    ]
    return chance.choice(fit or range(len(rows)))


def _soft(row: Row, _language: str, _chance: random.Random) -> Row:
    """Draw it in capitals without accents."""
    bare = unicodedata.normalize("NFD", (row.drawn or "").upper())
    return replace(row, drawn="".join(c for c in bare if not unicodedata.combining(c)))


def _missing(row: Row, _language: str, _chance: random.Random) -> Row:
    return replace(row, drawn=None)


def _truncated(row: Row, _language: str, chance: random.Random) -> Row:
    """Cut it at two thirds or so, half of the time with three dots."""
    text = row.drawn or ""
    cut = text[: max(6, int(len(text) * chance.uniform(0.45, 0.75)))].rstrip()
    return replace(row, drawn=cut + chance.choice(["", "…"]))


def _different(row: Row, _language: str, chance: random.Random) -> Row:
    """Say another word in place of one."""
    words = (row.drawn or "").split()
    index = max(range(len(words)), key=lambda each: len(words[each]))
    words[index] = chance.choice(["Panorama", "Telefonica", "Barometer", "Kabinett"])
    return replace(row, drawn=" ".join(words))


def _extra(row: Row, language: str, chance: random.Random) -> Row:
    unused = [text for text in phrases()[language] if text != row.drawn]
    return Row(f"{chance.choice(unused).rstrip('.')} 2", None)


def _untranslated(row: Row, language: str, _chance: random.Random) -> Row:
    known = phrases()
    return replace(row, drawn=known[languages.ENGLISH][known[language].index(row.drawn or "")])


def _wrong_language(row: Row, language: str, chance: random.Random) -> Row:
    known = phrases()
    others = [code for code in ("de", "fr", "nl") if code != language]
    return replace(row, drawn=known[chance.choice(others)][known[language].index(row.drawn or "")])


def _placeholder(row: Row, _language: str, chance: random.Random) -> Row:
    words = (row.drawn or "").split()
    words.insert(chance.randrange(1, len(words)), chance.choice(_PLACEHOLDERS))
    return replace(row, drawn=" ".join(words))


def _mojibake(row: Row, _language: str, _chance: random.Random) -> Row:
    """Take it for Windows-1252; text in ASCII has to have a no-break space to go wrong."""
    text = row.drawn or ""
    text = text if not text.isascii() else text.replace(" ", "\xa0", 1)
    return replace(row, drawn=text.encode().decode("cp1252", "replace"))


def _missing_glyph(row: Row, _language: str, _chance: random.Random) -> Row:
    """Let the font have none of the letters of one word."""
    words = (row.drawn or "").split()
    index = max(range(len(words)), key=lambda each: len(words[each]))
    words[index] = NO_SUCH_GLYPH * len(words[index])
    return replace(row, drawn=" ".join(words))


def _cut_off(row: Row, _language: str, _chance: random.Random) -> Row:
    return replace(row, overflows=True)


_FAULTS: dict[Kind, Callable[[Row, str, random.Random], Row]] = {
    Kind.SOFT_MATCH: _soft,
    Kind.MISSING: _missing,
    Kind.TRUNCATED: _truncated,
    Kind.DIFFERENT: _different,
    Kind.EXTRA: _extra,
    Kind.UNTRANSLATED: _untranslated,
    Kind.WRONG_LANGUAGE: _wrong_language,
    Kind.PLACEHOLDER: _placeholder,
    Kind.MOJIBAKE: _mojibake,
    Kind.MISSING_GLYPH: _missing_glyph,
    Kind.CUT_OFF: _cut_off,
}


# Drawing ------------------------------------------------------------------------------------------
# Draw screens: a bar with a title, rows of text, buttons; light or dark, small or large.


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


def draw(screen: Screen) -> Drawn:
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
    row: Row,
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
