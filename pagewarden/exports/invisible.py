"""Take an old invisible text layer off a page whose text was read anew.

Only text objects that show nothing at all lose their text, so the page looks as before. Text
that is seen stays, even if its characters make no sense to a computer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pikepdf

from pagewarden.exports import streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    Instructions = Sequence[pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage]

_INVISIBLE = 3
_SHOWING = frozenset({"Tj", "TJ", "'"})


def strip(pdf: pikepdf.Pdf, pdf_page: pikepdf.Page) -> None:
    """Remove invisible text from the page itself and from the forms that it draws directly."""
    content = _stripped(pdf_page)
    if content is not None:
        pdf_page.obj.Contents = streams.compressed(pdf, content)
    for name, form in _drawn(pdf_page):
        content = _stripped(form)
        if content is not None:
            _replace_form(pdf, pdf_page, name, form, content)


def _drawn(pdf_page: pikepdf.Page) -> list[tuple[str, pikepdf.Object]]:
    drawn = streams.dictionary(streams.dictionary(pdf_page.obj, "/Resources"), "/XObject")
    return [
        (name, form)
        for name, form in drawn.items()
        if isinstance(form, pikepdf.Stream) and form.get("/Subtype") == "/Form"
    ]


def _replace_form(
    pdf: pikepdf.Pdf, pdf_page: pikepdf.Page, name: str, form: pikepdf.Object, content: bytes
) -> None:
    """Give the page a form of its own: another page may draw the same one."""
    stripped = streams.compressed(pdf, content)
    for key, value in form.stream_dict.items():
        if key not in {"/Length", "/Filter", "/DecodeParms"}:
            stripped[key] = value
    resources = streams.own(pdf_page.obj, "/Resources")
    streams.own(resources, "/XObject")[name] = stripped


def _stripped(content: pikepdf.Page | pikepdf.Object) -> bytes | None:
    """Write the content anew without invisible text; None if it has none."""
    try:
        modes = {_mode(each) for each in pikepdf.parse_content_stream(content, "Tr")}
        instructions = pikepdf.parse_content_stream(content) if _INVISIBLE in modes else []
    except pikepdf.PdfError:  # content that qpdf cannot read is better left as it is
        return None
    invisible = _invisible(instructions)
    kept = [each for count, each in enumerate(instructions) if count not in invisible]
    return pikepdf.unparse_content_stream(kept) if invisible else None


def _invisible(instructions: Instructions) -> set[int]:
    """Find the instructions that show text in text objects where all of it is invisible."""
    found: set[int] = set()
    shown: list[int] = []
    mode, outer, seen = 0, [], False
    for count, instruction in enumerate(instructions):
        match str(instruction.operator):
            case "q":
                outer.append(mode)
            case "Q" if outer:
                mode = outer.pop()
            case "Tr":
                mode = _mode(instruction)
            case "BT":
                shown, seen = [], False
            case "ET" if not seen:
                found.update(shown)
            case operator if operator in _SHOWING:
                shown.append(count)
                seen = seen or mode != _INVISIBLE
            case '"':  # it also sets the spacing of what comes later
                seen = True
    return found


def _mode(
    instruction: pikepdf.ContentStreamInstruction | pikepdf.ContentStreamInlineImage,
) -> int:
    operands = list(instruction.operands)
    return operands[0] if len(operands) == 1 and isinstance(operands[0], int) else 0
