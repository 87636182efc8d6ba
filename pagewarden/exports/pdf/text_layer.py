"""Remove old invisible text from a page, and write the new text layer.

Text is only removed from text objects that are entirely invisible, so the page looks the same.
Visible text stays, even if its characters cannot be decoded.
"""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, NamedTuple

import pikepdf

from pagewarden.exports import base
from pagewarden.exports.pdf import glyphless_font, objects
from pagewarden.ocr import bidi

if TYPE_CHECKING:
    from collections.abc import Sequence

    Instructions = Sequence[pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage]
    from collections.abc import Iterator, Sequence

    from pagewarden.ocr import pages

_INVISIBLE = 3
_SHOW_TEXT = frozenset({"Tj", "TJ", "'"})


def strip_invisible_text(pdf: pikepdf.Pdf, pdf_page: pikepdf.Page) -> None:
    """Remove invisible text from a page and from the forms that it draws directly."""
    content = _remove_invisible_text(pdf_page)
    if content is not None:
        pdf_page.obj.Contents = objects.compress(pdf, content)
    for name, form in _find_forms(pdf_page):
        content = _remove_invisible_text(form)
        if content is not None:
            _replace_form(pdf, pdf_page, name, form, content)


def _find_forms(pdf_page: pikepdf.Page) -> list[tuple[str, pikepdf.Object]]:
    resources = objects.find_dictionary(pdf_page.obj, "/Resources")
    return [
        (name, form)
        for name, form in objects.find_dictionary(resources, "/XObject").items()
        if isinstance(form, pikepdf.Stream) and form.get("/Subtype") == "/Form"
    ]


def _replace_form(
    pdf: pikepdf.Pdf, pdf_page: pikepdf.Page, name: str, form: pikepdf.Object, content: bytes
) -> None:
    """Replace a form of this page only; other pages may share it."""
    stripped = objects.compress(pdf, content)
    for key, value in form.stream_dict.items():
        if key not in {"/Length", "/Filter", "/DecodeParms"}:
            stripped[key] = value
    resources = objects.copy_dictionary(pdf_page.obj, "/Resources")
    objects.copy_dictionary(resources, "/XObject")[name] = stripped


def _remove_invisible_text(content: pikepdf.Page | pikepdf.Object) -> bytes | None:
    """Return the content without invisible text, or None if it has none."""
    try:
        modes = {_get_rendering_mode(each) for each in pikepdf.parse_content_stream(content, "Tr")}
        instructions = pikepdf.parse_content_stream(content) if _INVISIBLE in modes else []
    except pikepdf.PdfError:  # keep content that qpdf cannot parse
        return None
    invisible = _find_invisible(instructions)
    visible = [each for index, each in enumerate(instructions) if index not in invisible]
    return pikepdf.unparse_content_stream(visible) if invisible else None


def _find_invisible(instructions: Instructions) -> set[int]:
    """Return the indexes of show-text instructions in text objects without visible text."""
    invisible: set[int] = set()
    in_object: list[int] = []
    mode, saved_modes, has_visible = 0, [], False
    for index, instruction in enumerate(instructions):
        match str(instruction.operator):
            case "q":
                saved_modes.append(mode)
            case "Q" if saved_modes:
                mode = saved_modes.pop()
            case "Tr":
                mode = _get_rendering_mode(instruction)
            case "BT":
                in_object, has_visible = [], False
            case "ET" if not has_visible:
                invisible.update(in_object)
            case operator if operator in _SHOW_TEXT:
                in_object.append(index)
                has_visible = has_visible or mode != _INVISIBLE
            case '"':  # it also sets the spacing of later text
                has_visible = True
    return invisible


def _get_rendering_mode(
    instruction: pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage,
) -> int:
    operands = list(instruction.operands)
    return operands[0] if len(operands) == 1 and isinstance(operands[0], int) else 0


# Words with less skew than this, in degrees, are drawn upright in their bounding box: Poppler
# splits words whose baseline rises by half a point between letters, which happens to long words at
# a skew of only 3 degrees.
_UPRIGHT_DEGREES = 15
_MIN_EXTENT = 0.01


class WordPlacement(NamedTuple):
    """Position of a word: its lower left corner and two edges, as x + y * 1j."""

    origin: complex
    along: complex
    up: complex


def build_content(
    page: pages.ReadPage,
    frame: objects.Frame,
    font: glyphless_font.GlyphlessFont,
    name: pikepdf.Name,
) -> bytes:
    """Return the content stream of a clean page's words; it restores the graphics state."""
    words = [command for line in page.lines for command in _draw_line(line, frame, font)]
    return "\n".join(["q BT 3 Tr", f"{name} 1 Tf", *words, "ET Q", ""]).encode("ascii")


def _draw_line(
    line: pages.Line, frame: objects.Frame, font: glyphless_font.GlyphlessFont
) -> Iterator[str]:
    spaced = list(base.iterate_words(line))
    space_follows = [space for space, _ in spaced[1:]] + [False]
    for (_, word), space in zip(spaced, space_follows, strict=True):
        corners = [complex(*frame.point(corner)) for corner in word.quad]
        yield _draw_word(word.text, _place_word(corners), font, has_trailing_space=space)


def _draw_word(
    text: str,
    placement: WordPlacement,
    font: glyphless_font.GlyphlessFont,
    *,
    has_trailing_space: bool,
) -> str:
    """Draw the letters exactly over the word, and a following space beyond it."""
    letter = placement.along / len(text)
    origin = placement.origin - placement.up * glyphless_font.DESCENT / glyphless_font.UNITS
    if bidi.is_right_to_left(text):
        origin -= letter * has_trailing_space
        # PDF has visual order; viewers reverse right-to-left scripts.
        text = " " * has_trailing_space + bidi.reorder(text)
    else:
        text += " " * has_trailing_space
    across = letter * glyphless_font.UNITS / glyphless_font.WIDTH
    numbers = " ".join(
        f"{_format_number(vector.real)} {_format_number(vector.imag)}"
        for vector in (across, placement.up, origin)
    )
    return f"{numbers} Tm {font.encode(text)} Tj"


def _place_word(corners: Sequence[complex]) -> WordPlacement:
    top_left, top_right, bottom_right, bottom_left = corners
    along = (top_right - top_left + bottom_right - bottom_left) / 2
    quarters = round(cmath.phase(along) / (math.pi / 2))
    rotation = 1j**quarters
    if abs(math.degrees(cmath.phase(along / rotation))) < _UPRIGHT_DEGREES:
        return _place_upright([corner / rotation for corner in corners], rotation)
    up = (top_left - bottom_left + top_right - bottom_right) / 2
    if abs((along.conjugate() * up).imag) < _MIN_EXTENT * abs(along):
        up = 1j * along / abs(along) * _MIN_EXTENT
    return WordPlacement(sum(corners) / 4 - (along + up) / 2, along, up)


def _place_upright(corners: Sequence[complex], rotation: complex) -> WordPlacement:
    """Place a word in the bounding box of upright corners, and rotate the result."""
    xs, ys = [corner.real for corner in corners], [corner.imag for corner in corners]
    width, height = max(max(xs) - min(xs), _MIN_EXTENT), max(max(ys) - min(ys), _MIN_EXTENT)
    return WordPlacement(
        complex(min(xs), min(ys)) * rotation, width * rotation, 1j * height * rotation
    )


def _format_number(value: float) -> str:
    return f"{value:.5f}".rstrip("0").rstrip(".")
