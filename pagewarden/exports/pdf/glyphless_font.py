"""An invisible font that encodes every character, for searchable text.

Characters get two-byte codes in the order of their first use; a ToUnicode map decodes them. All
share one glyph without area, half as wide as the font is high.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pikepdf

from pagewarden.exports.pdf import objects

if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS = 1000
WIDTH = 500
ASCENT = 800
DESCENT = -200

_NAME = pikepdf.Name("/PagewardenGlyphless")
_MAX_CODES = 0xFFFF
_TO_UNICODE = """\
/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
{blocks}
endcmap
CMapName currentdict /CMap defineresource pop
end
end
"""


class GlyphlessFont:
    """The font of one PDF; usable immediately, complete after finish()."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self.object = pdf.make_indirect(pikepdf.Dictionary())
        self._pdf = pdf
        self._codes: dict[str, int] = {}

    def encode(self, text: str) -> str:
        """Encode text as a hexadecimal string of a content stream."""
        return f"<{''.join(f'{self._get_code(character):04X}' for character in text)}>"

    def finish(self) -> None:
        """Write the parts of the font that depend on the characters used."""
        font = pikepdf.Dictionary(
            Type=pikepdf.Name.Font,
            Subtype=pikepdf.Name.Type0,
            BaseFont=_NAME,
            Encoding=pikepdf.Name("/Identity-H"),
            DescendantFonts=[self._pdf.make_indirect(self._make_descendant_font())],
            ToUnicode=objects.compress(self._pdf, _make_cmap(self._codes).encode("ascii")),
        )
        for key, value in font.items():
            self.object[key] = value

    def _get_code(self, character: str) -> int:
        if len(self._codes) == _MAX_CODES:
            return self._codes.get(character, _MAX_CODES)
        return self._codes.setdefault(character, len(self._codes) + 1)

    def _make_descendant_font(self) -> pikepdf.Dictionary:
        # Code 0 is .notdef; all others share the glyph.
        glyphs = b"\0\0" + b"\0\1" * len(self._codes)
        return pikepdf.Dictionary(
            Type=pikepdf.Name.Font,
            Subtype=pikepdf.Name.CIDFontType2,
            BaseFont=_NAME,
            CIDSystemInfo=pikepdf.Dictionary(
                Registry=pikepdf.String("Adobe"),
                Ordering=pikepdf.String("Identity"),
                Supplement=0,
            ),
            FontDescriptor=self._pdf.make_indirect(self._make_descriptor()),
            DW=WIDTH,
            CIDToGIDMap=objects.compress(self._pdf, glyphs),
        )

    def _make_descriptor(self) -> pikepdf.Dictionary:
        program = build_true_type()
        file = objects.compress(self._pdf, program)
        file.Length1 = len(program)
        return pikepdf.Dictionary(
            Type=pikepdf.Name.FontDescriptor,
            FontName=_NAME,
            Flags=4,  # symbolic: no encoding of its own
            FontBBox=[0, DESCENT, WIDTH, ASCENT],
            ItalicAngle=0,
            Ascent=ASCENT,
            Descent=DESCENT,
            CapHeight=ASCENT,
            StemV=80,
            FontFile2=file,
        )


def build_true_type() -> bytes:
    """Build a TrueType font with an empty .notdef and the glyph of all characters."""
    tables = {
        b"glyf": _draw_glyph(),
        b"head": struct.pack(
            ">4I2H2q4h2H3h",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5),  # versions, checksum (set below), magic number
            *(0b1011, UNITS),
            *(0, 0),  # creation and modification time
            *(0, DESCENT, WIDTH, ASCENT),
            *(0, 8, 2, 0, 0),
        ),
        b"hhea": struct.pack(
            ">I3hH11hH", 0x10000, ASCENT, DESCENT, 0, WIDTH, *(0, 0, WIDTH, 1), *[0] * 7, 1
        ),
        b"hmtx": struct.pack(">H2h", WIDTH, 0, 0),
        b"loca": struct.pack(">3H", 0, 0, len(_draw_glyph()) // 2),
        b"maxp": struct.pack(">I14H", 0x10000, 2, 2, 1, *(0, 0, 1), *[0] * 8),
        b"post": struct.pack(">Ii2h5I", 0x30000, 0, -100, 50, 1, *[0] * 4),
    }
    font = _collect_tables(tables)
    offset = font.index(tables[b"head"]) + 8
    adjustment = (0xB1B0AFBA - _compute_checksum(font)) % 2**32
    return font[:offset] + struct.pack(">I", adjustment) + font[offset + 4 :]


def _draw_glyph() -> bytes:
    """Draw a line from corner to corner and back: invisible, but with a bounding box for PDFium.

    Without an outline, PDFium considers the glyph to have no height: it drops vertical text and
    does not highlight search hits.
    """
    box = struct.pack(">5h", 1, 0, DESCENT, WIDTH, ASCENT)
    ends_and_instructions = struct.pack(">2H", 1, 0)
    flags = b"\1\1"
    steps = struct.pack(">4h", 0, WIDTH, DESCENT, ASCENT - DESCENT)
    return box + ends_and_instructions + flags + steps


def _collect_tables(tables: dict[bytes, bytes]) -> bytes:
    power = len(tables).bit_length() - 1
    span = 16 << power
    head = struct.pack(">I4H", 0x10000, len(tables), span, power, len(tables) * 16 - span)
    directory, body = b"", b""
    start = len(head) + 16 * len(tables)
    for tag, table in sorted(tables.items()):
        directory += struct.pack(
            ">4s3I", tag, _compute_checksum(table), start + len(body), len(table)
        )
        body += _pad(table)
    return head + directory + body


def _compute_checksum(data: bytes) -> int:
    padded = _pad(data)
    words = (padded[start : start + 4] for start in range(0, len(padded), 4))
    return sum(int.from_bytes(word, "big") for word in words) % 2**32


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _make_cmap(codes: dict[str, int]) -> str:
    """Return the map from codes to characters, in blocks of the maximum length of 100."""
    characters = list(codes.items())
    blocks = [characters[start : start + 100] for start in range(0, len(characters), 100)]
    return _TO_UNICODE.format(blocks="\n".join(map(_make_block, blocks)))


def _make_block(characters: Sequence[tuple[str, int]]) -> str:
    entries = [
        f"<{code:04X}> <{character.encode('utf-16-be').hex().upper()}>"
        for character, code in characters
    ]
    return "\n".join([f"{len(entries)} beginbfchar", *entries, "endbfchar"])
