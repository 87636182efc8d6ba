"""Sample files: hand-written PDFs and drawn images."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pikepdf
import pillow_heif
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROSE = (
    "The garden behind the old house was full of roses,",
    "and every morning a woman in a grey coat came out",
    "to cut the dead flowers and talk to the birds.",
    "Nobody in the village knew how long she had lived",
    "there, nor who paid for the bread she was brought,",
    "but the children liked her and called her Johanna.",
)
LETTER = (612, 792)

_LEFT, _TOP, _LEADING, _SIZE = 72, 720, 30, 16


@dataclass(frozen=True, slots=True)
class Placed:
    """A word on a page of text_pdf, and its position in points, origin top left."""

    text: str
    left: float
    right: float
    baseline: float


def make_text_pdf(
    *pages: Sequence[str],
    rotate: int = 0,
    box: tuple[float, float, float, float] | None = None,
    crop: tuple[float, float, float, float] | None = None,
    invisible: bool = False,
) -> bytes:
    """Write lines of Helvetica on pages of US letter; rotate, box and crop are theirs."""
    pdf = pikepdf.new()
    for lines in pages:
        page = _new_page(pdf)
        page.Contents = pdf.make_stream(_show(lines, invisible=invisible))
        if rotate:
            page.Rotate = rotate
        if box:
            page.MediaBox = pikepdf.Array(box)
        if crop:
            page.CropBox = pikepdf.Array(crop)
    return _saved(pdf)


def placed_words(lines: Sequence[str]) -> list[Placed]:
    """Return the position of every word of a page of text_pdf."""
    font = _helvetica_widths()
    words: list[Placed] = []
    for number, line in enumerate(lines):
        at = float(_LEFT)
        for word in line.split(" "):
            width = sum(font[char] for char in word) * _SIZE / 1000
            words.append(Placed(word, at, at + width, LETTER[1] - _TOP + number * _LEADING))
            at += width + font[" "] * _SIZE / 1000
    return words


def drawn(
    lines: Sequence[str] = PROSE, size: tuple[int, int] = (1275, 1650), *, ink: int = 0
) -> Image.Image:
    """Draw lines on white paper, by default of US letter at 150 dpi."""
    image = Image.new("L", size, 255)
    pen = ImageDraw.Draw(image)
    for box, line in zip(line_boxes(lines, size), lines, strict=True):
        pen.text((box[0], box[1]), line, fill=ink, font=_font(size))
    return image


def line_boxes(
    lines: Sequence[str] = PROSE, size: tuple[int, int] = (1275, 1650)
) -> list[tuple[float, float, float, float]]:
    """Return the box of each line of `drawn`: left, top, right, bottom in pixels."""
    left, top, step = size[0] / 10, size[1] / 10, size[1] / 16
    font = _font(size)
    return [
        (left, top + row * step, left + font.getlength(line), top + (row + 0.7) * step)
        for row, line in enumerate(lines)
    ]


def scan_pdf(
    *images: Image.Image,
    size: tuple[float, float] = LETTER,
    layer: Sequence[str] = (),
    stamp: str = "",
) -> bytes:
    """Put images over whole pages; layer lies invisibly over the lines of drawn, stamp on top."""
    pdf = pikepdf.new()
    for image in images:
        page = _new_page(pdf, size)
        page.Resources.XObject = pikepdf.Dictionary(Scan=_image_stream(pdf, image))
        content = b"q %f 0 0 %f 0 0 cm /Scan Do Q\n" % size
        if layer:
            content += _over(layer, image.size, size)
        if stamp:
            content += b"BT /F 9 Tf 72 20 Td (%s) Tj ET" % stamp.encode()
        page.Contents = pdf.make_stream(content)
    return _saved(pdf)


def mapped_pdf(meanings: Mapping[str, str], lines: Sequence[str] = PROSE) -> bytes:
    """Write lines in a font that says of some characters that they mean others."""
    pdf = pikepdf.new()
    page = _new_page(pdf)
    rows = "\n".join(
        f"<{ord(char):02X}> <{meaning.encode('utf-16-be', 'surrogatepass').hex()}>"
        for char, meaning in meanings.items()
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap "
        "1 begincodespacerange <00> <FF> endcodespacerange "
        f"{len(meanings)} beginbfchar {rows} endbfchar endcmap end end"
    )
    page.Resources.Font.F.ToUnicode = pdf.make_stream(cmap.encode())
    page.Contents = pdf.make_stream(_show(lines))
    return _saved(pdf)


def mirrored_pdf(meanings: Mapping[str, str], lines: Sequence[str]) -> bytes:
    """Write lines like mapped_pdf, from right to left by a matrix that mirrors them."""
    with pikepdf.open(io.BytesIO(mapped_pdf(meanings))) as pdf:
        shown = (
            f"BT /F {_SIZE} Tf -1 0 0 1 300 {_TOP - row * _LEADING} Tm ({line}) Tj ET"
            for row, line in enumerate(lines)
        )
        pdf.pages[0].Contents = pdf.make_stream("\n".join(shown).encode())
        return _saved(pdf)


def gibberish_pdf(lines: Sequence[str] = PROSE) -> bytes:
    """Write lines that look right, and whose characters mean others, as in bad subsets of fonts."""
    return mapped_pdf({chr(code): chr(code - 29) for code in range(61, 127)}, lines)


def sideways_pdf(lines: Sequence[str] = PROSE) -> bytes:
    """Write lines from the bottom of the page to its top, every word for itself."""
    pdf = pikepdf.new()
    page = _new_page(pdf)
    parts = []
    for number, line in enumerate(lines):
        for word in placed_words([line]):
            x, y = 100 + number * _LEADING, word.left
            parts.append(f"BT /F {_SIZE} Tf 0 1 -1 0 {x} {y:.3f} Tm ({word.text}) Tj ET")
    page.Contents = pdf.make_stream("\n".join(parts).encode("cp1252"))
    return _saved(pdf)


def kerned_pdf(pieces: str, *, spacing: float = 0) -> bytes:
    """Write one line of pieces, moved on by thousandths of the font's size: '(a) -200 (b)'.

    spacing is put after every letter, in points.
    """
    pdf = pikepdf.new()
    page = _new_page(pdf)
    page.Contents = pdf.make_stream(f"BT /F 16 Tf {spacing} Tc 72 700 Td [{pieces}] TJ ET".encode())
    return _saved(pdf)


def form_pdf(value: str) -> bytes:
    """Make a page with one filled text field without an appearance stream."""
    pdf = pikepdf.new()
    page = _new_page(pdf)
    page.Contents = pdf.make_stream(_show(["Name of the applicant"]))
    field = pdf.make_indirect(
        pikepdf.Dictionary(
            Type=pikepdf.Name.Annot,
            Subtype=pikepdf.Name.Widget,
            FT=pikepdf.Name.Tx,
            T="name",
            V=value,
            DA="/F 12 Tf 0 g",
            F=4,
            Rect=pikepdf.Array([72, 600, 400, 630]),
        )
    )
    page.Annots = pikepdf.Array([field])
    pdf.Root.AcroForm = pikepdf.Dictionary(
        Fields=pikepdf.Array([field]),
        DA="/F 12 Tf 0 g",
        DR=pikepdf.Dictionary(Font=page.Resources.Font),
        NeedAppearances=True,
    )
    return _saved(pdf)


def with_broken_page(pdf_bytes: bytes, number: int) -> bytes:
    """Replace the content stream of a page, counted from 1, by undecodable bytes."""
    with pikepdf.open(io.BytesIO(pdf_bytes)) as pdf:
        broken = pikepdf.Stream(pdf, b"neither here nor there " * 9)
        broken.Filter = pikepdf.Name.FlateDecode
        pdf.pages[number - 1].Contents = pdf.make_indirect(broken)
        return _saved(pdf)


def with_odd_page(pdf_bytes: bytes, number: int, *, empty: bool = False) -> bytes:
    """Call a page, counted from 1, something that is no page; empty takes all it has away."""
    with pikepdf.open(io.BytesIO(pdf_bytes)) as pdf:
        page = pdf.pages[number - 1].obj
        for key in list(page.keys()) if empty else []:
            del page[key]
        page.Type = pikepdf.Name.Nothing
        return _saved(pdf)


def joined(*files: bytes) -> bytes:
    """Put the pages of several PDFs into one."""
    pdf = pikepdf.new()
    for data in files:
        with pikepdf.open(io.BytesIO(data)) as part:
            pdf.pages.extend(part.pages)
    return _saved(pdf)


def encrypted(pdf_bytes: bytes, *, user: str, owner: str) -> bytes:
    """Encrypt a PDF; with an empty user password it can be opened without one."""
    with pikepdf.open(io.BytesIO(pdf_bytes)) as pdf:
        target = io.BytesIO()
        pdf.save(target, encryption=pikepdf.Encryption(user=user, owner=owner))
        return target.getvalue()


def many_pages_pdf(count: int) -> bytes:
    """Make a PDF of many empty pages."""
    kids = " ".join(f"{number} 0 R" for number in range(3, count + 3))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] /MediaBox [0 0 612 792] >>",
        *["<< /Type /Page /Parent 2 0 R >>"] * count,
    ]
    data = "%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj {body} endobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(bodies) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>"
    return f"{data}{tail}\nstartxref\n{len(data)}\n%%EOF\n".encode()


def noise(size: tuple[int, int], channels: int = 3) -> Image.Image:
    """Make an incompressible image."""
    values = np.random.default_rng(7).integers(0, 256, (*size[::-1], channels), dtype=np.uint8)
    return Image.fromarray(values.squeeze())


def as_file(image: Image.Image, kind: str, **options: object) -> bytes:
    """Encode an image as Pillow's format of this name."""
    pillow_heif.register_heif_opener()
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def _new_page(pdf: pikepdf.Pdf, size: tuple[float, float] = LETTER) -> pikepdf.Page:
    page = pdf.add_blank_page(page_size=size)
    font = pikepdf.Dictionary(
        Type=pikepdf.Name.Font,
        Subtype=pikepdf.Name.Type1,
        BaseFont=pikepdf.Name.Helvetica,
        Encoding=pikepdf.Name.WinAnsiEncoding,
    )
    page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F=font))
    return page


def _show(lines: Sequence[str], *, invisible: bool = False) -> bytes:
    head = f"BT /F {_SIZE} Tf {3 if invisible else 0} Tr {_LEADING} TL {_LEFT} {_TOP} Td"
    rows = " T* ".join(f"({line}) Tj" for line in lines)
    return f"{head} {rows} ET".encode("cp1252")


def _over(lines: Sequence[str], pixels: tuple[int, int], size: tuple[float, float]) -> bytes:
    """Lay lines invisibly over those of drawn, each stretched to the width it is drawn with."""
    scale = size[0] / pixels[0]
    widths = _helvetica_widths()
    parts = []
    for (left, top, right, bottom), line in zip(line_boxes(lines, pixels), lines, strict=True):
        height = (bottom - top) * scale
        natural = sum(widths.get(char, 556) for char in line) * height / 1000
        stretch = 100 * (right - left) * scale / natural
        baseline = size[1] - bottom * scale + height * 0.3
        parts.append(
            f"BT 3 Tr /F {height:.2f} Tf {stretch:.2f} Tz "
            f"1 0 0 1 {left * scale:.2f} {baseline:.2f} Tm ({_escaped(line)}) Tj ET"
        )
    return ("\n".join(parts) + "\n0 Tr 100 Tz\n").encode("cp1252")


def _escaped(text: str) -> str:
    return text.replace("(", r"\(").replace(")", r"\)")


def _image_stream(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    return pikepdf.Stream(
        pdf,
        as_file(image, "JPEG", quality=85),
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Image,
        Width=image.width,
        Height=image.height,
        ColorSpace=pikepdf.Name.DeviceGray if image.mode == "L" else pikepdf.Name.DeviceRGB,
        BitsPerComponent=8,
        Filter=pikepdf.Name.DCTDecode,
    )


def _saved(pdf: pikepdf.Pdf) -> bytes:
    target = io.BytesIO()
    # Streams are kept as they are, so that a broken one stays broken.
    pdf.save(target, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none)
    return target.getvalue()


def _font(size: tuple[int, int]) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size[1] / 44)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow was built without FreeType")
    return font


def _helvetica_widths() -> dict[str, int]:
    """Give the widths of the characters we use, in thousandths of the font's size."""
    wide = {"m": 833, "w": 722, "W": 944, "M": 833, "T": 611, "J": 500, "N": 722, "-": 333}
    narrow = {"i": 222, "j": 222, "l": 222, " ": 278, ",": 278, ".": 278, "f": 278, "t": 278}
    middle = dict.fromkeys("ckvsxyz", 500) | {"r": 333}
    return dict.fromkeys("abdeghnopqu0123456789", 556) | middle | wide | narrow
