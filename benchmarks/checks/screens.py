"""Screens in ten languages with planted errors, which a check has to find.

Every language has the same screens with the same errors. Half of the screens have references; the
others are checked for their language and for errors in the text itself.
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
from pagewarden.checks.rules import languages
from pagewarden.checks.rules.result import IssueKind
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


STRINGS = 7
UNKNOWN_CHARACTER = "\U0010fffd"
_PLACEHOLDERS = ("{name}", "%s", "{{count}}", "%1$s", "{0}", "$t(title)", "${user}")


@dataclass(frozen=True, slots=True)
class Row:
    """A string on a screen; with a planted error, the drawn text differs from the expected one.

    A missing string is not drawn, an extra one not expected.
    """

    drawn: str | None
    expected: str | None
    error: IssueKind | None = None
    overflows: bool = False


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen to draw, with or without references."""

    name: str
    language: str
    rows: tuple[Row, ...]
    has_references: bool
    style: int

    @property
    def expected(self) -> list[str] | None:
        """Return the references, None if there are none."""
        if not self.has_references:
            return None
        return [row.expected for row in self.rows if row.expected is not None]


@dataclass(frozen=True, slots=True)
class _Plan:
    error: IssueKind | None
    has_references: bool


_WITH_REFERENCES = (
    None, None, None, IssueKind.SOFT_MATCH, IssueKind.MISSING, IssueKind.TRUNCATED,
    IssueKind.TRUNCATED, IssueKind.DIFFERENT, IssueKind.DIFFERENT, IssueKind.EXTRA,
)  # fmt: skip
_WITHOUT_REFERENCES = (
    None, None, None, IssueKind.UNTRANSLATED, IssueKind.UNTRANSLATED, IssueKind.WRONG_LANGUAGE,
    IssueKind.PLACEHOLDER, IssueKind.MOJIBAKE, IssueKind.MISSING_GLYPH, IssueKind.CUT_OFF,
)  # fmt: skip
PLANS = tuple(
    plan
    for pair in zip(_WITH_REFERENCES, _WITHOUT_REFERENCES, strict=True)
    for plan in (_Plan(pair[0], True), _Plan(pair[1], False))
)


def load_phrases() -> dict[str, list[str]]:
    """Load the strings of a fictitious program by language."""
    text = resources.files(__package__).joinpath("phrases.json").read_text(encoding="utf-8")
    phrases: dict[str, list[str]] = json.loads(text)
    return phrases


def make_screens(count: int, seed: int) -> Iterator[Screen]:
    """Generate screens, with the languages in turn."""
    phrases = load_phrases()
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")  # noqa: S311  # no secret
        language = list(phrases)[number % len(phrases)]
        # The step of 7 gives every language every plan, and varies the plans even of few screens.
        plan = PLANS[(7 * (number // len(phrases)) + number) % len(PLANS)]
        name = f"{number:03}-{language}-{plan.error or 'clean'}".replace(" ", "-")
        rows = _plant_error(_choose_rows(phrases[language], rng), plan.error, language, rng)
        yield Screen(name, language, rows, plan.has_references, number)


def _choose_rows(strings: list[str], rng: random.Random) -> list[Row]:
    return [Row(text, text) for text in rng.sample(strings, STRINGS)]


def _plant_error(
    rows: list[Row], error: IssueKind | None, language: str, rng: random.Random
) -> tuple[Row, ...]:
    if error is None:
        return tuple(rows)
    if error is IssueKind.UNTRANSLATED and language == languages.ENGLISH:
        error = IssueKind.WRONG_LANGUAGE
    index = _choose_row(rows, error, rng)
    row = replace(_ERRORS[error](rows[index], language, rng), error=error)
    if error is IssueKind.EXTRA:
        return (*rows[:index], row, *rows[index:])
    return (*rows[:index], row, *rows[index + 1 :])


def _choose_row(rows: list[Row], error: IssueKind, rng: random.Random) -> int:
    """Choose a row for the error; mojibake needs a character outside ASCII."""
    needs_letter = error in {IssueKind.MOJIBAKE, IssueKind.MISSING_GLYPH}
    suitable = [
        index
        for index, row in enumerate(rows)
        if not needs_letter or not (row.drawn or "").isascii()
    ]
    return rng.choice(suitable or range(len(rows)))


def _soften(row: Row, _language: str, _rng: random.Random) -> Row:
    """Draw the text in capitals without accents."""
    decomposed = unicodedata.normalize("NFD", (row.drawn or "").upper())
    return replace(row, drawn="".join(c for c in decomposed if not unicodedata.combining(c)))


def _omit(row: Row, _language: str, _rng: random.Random) -> Row:
    return replace(row, drawn=None)


def _truncate(row: Row, _language: str, rng: random.Random) -> Row:
    """Cut the text at about two thirds, half of the time with an ellipsis."""
    text = row.drawn or ""
    cut = text[: max(6, int(len(text) * rng.uniform(0.45, 0.75)))].rstrip()
    return replace(row, drawn=cut + rng.choice(["", "…"]))


def _replace_word(row: Row, _language: str, rng: random.Random) -> Row:
    """Replace the longest word."""
    words = (row.drawn or "").split()
    index = max(range(len(words)), key=lambda each: len(words[each]))
    words[index] = rng.choice(["Panorama", "Telefonica", "Barometer", "Kabinett"])
    return replace(row, drawn=" ".join(words))


def _add_row(row: Row, language: str, rng: random.Random) -> Row:
    unused = [text for text in load_phrases()[language] if text != row.drawn]
    return Row(f"{rng.choice(unused).rstrip('.')} 2", None)


def _leave_untranslated(row: Row, language: str, _rng: random.Random) -> Row:
    phrases = load_phrases()
    return replace(row, drawn=phrases[languages.ENGLISH][phrases[language].index(row.drawn or "")])


def _use_wrong_language(row: Row, language: str, rng: random.Random) -> Row:
    phrases = load_phrases()
    others = [code for code in ("de", "fr", "nl") if code != language]
    return replace(row, drawn=phrases[rng.choice(others)][phrases[language].index(row.drawn or "")])


def _show_placeholder(row: Row, _language: str, rng: random.Random) -> Row:
    words = (row.drawn or "").split()
    words.insert(rng.randrange(1, len(words)), rng.choice(_PLACEHOLDERS))
    return replace(row, drawn=" ".join(words))


def _garble(row: Row, _language: str, _rng: random.Random) -> Row:
    """Decode the text as Windows-1252; ASCII needs a no-break space to be garbled."""
    text = row.drawn or ""
    text = text if not text.isascii() else text.replace(" ", "\xa0", 1)
    return replace(row, drawn=text.encode().decode("cp1252", "replace"))


def _replace_with_missing_glyph(row: Row, _language: str, _rng: random.Random) -> Row:
    """Replace the letters of the longest word by a character that no font has."""
    words = (row.drawn or "").split()
    index = max(range(len(words)), key=lambda each: len(words[each]))
    words[index] = UNKNOWN_CHARACTER * len(words[index])
    return replace(row, drawn=" ".join(words))


def _cut_off_text(row: Row, _language: str, _rng: random.Random) -> Row:
    return replace(row, overflows=True)


_ERRORS: dict[IssueKind, Callable[[Row, str, random.Random], Row]] = {
    IssueKind.SOFT_MATCH: _soften,
    IssueKind.MISSING: _omit,
    IssueKind.TRUNCATED: _truncate,
    IssueKind.DIFFERENT: _replace_word,
    IssueKind.EXTRA: _add_row,
    IssueKind.UNTRANSLATED: _leave_untranslated,
    IssueKind.WRONG_LANGUAGE: _use_wrong_language,
    IssueKind.PLACEHOLDER: _show_placeholder,
    IssueKind.MOJIBAKE: _garble,
    IssueKind.MISSING_GLYPH: _replace_with_missing_glyph,
    IssueKind.CUT_OFF: _cut_off_text,
}


# Drawing ------------------------------------------------------------------------------------------
# A title bar, rows of text, buttons; light or dark, small or large.


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
    """An image and the boxes of its rows, None for rows that are not drawn."""

    image: Image.Image
    boxes: tuple[pages.Box | None, ...]


@functools.cache
def load_font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Load a font of the system."""
    try:
        return ImageFont.truetype(name, size)
    except OSError as exc:
        raise errors.SettingsError(
            f"the font {name} is missing; install DejaVu and Liberation fonts"
        ) from exc


def draw(screen: Screen) -> Drawn:
    """Draw a screen in its style."""
    theme = THEMES[screen.style % len(THEMES)]
    face = load_font(FONTS[screen.style // 2 % len(FONTS)], SIZES[screen.style // 3 % len(SIZES)])
    widest = max(face.getlength(row.drawn or "") for row in screen.rows)
    step = int(face.size * 3)
    size = (int(widest) + 4 * MARGIN, step * (len(screen.rows) + 1))
    image = Image.new("RGB", size, theme.paper)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, size[0], step), fill=theme.bar)
    boxes = [
        _draw_row(pen, row, face, theme, (index, step, size[0]))
        for index, row in enumerate(screen.rows)
    ]
    return Drawn(image, tuple(boxes))


def _draw_row(
    pen: ImageDraw.ImageDraw,
    row: Row,
    face: ImageFont.FreeTypeFont,
    theme: Theme,
    layout: tuple[int, int, int],
) -> pages.Box | None:
    """Draw a row: the first in the title bar, every third as a button."""
    index, step, width = layout
    if row.drawn is None:
        return None
    top = index * step + (step - face.size) / 2 + (step / 2 if index else 0)
    length = face.getlength(row.drawn)
    left = width - length * 0.7 if row.overflows else MARGIN
    on_colour = index == 0 or (index % 3 == 0 and not row.overflows)
    if index and on_colour:
        frame = (left - 16, top - 14, left + length + 16, top + face.size + 18)
        pen.rounded_rectangle(frame, radius=10, fill=theme.button)
    pen.text(
        (left, top), row.drawn, load_font=face, fill=theme.on_colour if on_colour else theme.ink
    )
    return pages.Box(left, top, min(left + length, width), top + face.size * 1.2)
