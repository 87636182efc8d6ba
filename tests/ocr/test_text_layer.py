from __future__ import annotations

import contextlib
import string
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from pagewarden.ocr import limits, pages
from pagewarden.ocr.document import open_document
from pagewarden.ocr.pdf import text_layer
from tests.ocr import samples

if TYPE_CHECKING:
    from pathlib import Path

_LIMITS = limits.Limits()

_OTHER_TONGUES = {
    "French": "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, "
    "mes yeux se fermaient si vite que je n'avais pas le temps de me dire que je dormais.",
    "German": "Es war spät abends, als der Mann ankam. Das Dorf lag in tiefem Schnee, und vom "
    "Schloßberg war nichts zu sehen; Nebel und Finsternis umgaben ihn.",
    "Polish": "Litwo, ojczyzno moja, ty jesteś jak zdrowie; ile cię trzeba cenić, ten tylko się "
    "dowie, kto cię stracił. Dziś piękność twą w całej ozdobie widzę i opisuję.",
    "Finnish": "Mieleni minun tekevi, aivoni ajattelevi lähteäni laulamahan, saa'ani sanelemahan, "
    "sukuvirttä suoltamahan, lajivirttä laulamahan.",
    "Turkish": "Akşam olunca kuşlar yuvalar\u0131na döner, çocuklar eve koşar ve köyün üstüne "
    "ince bir duman çöker; herkes bilir ki yemek haz\u0131rd\u0131r.",
    "Vietnamese": "Trăm năm trong cõi người ta, chữ tài chữ mệnh khéo là ghét nhau. Trải qua một "
    "cuộc bể dâu, những điều trông thấy mà đau đớn lòng.",
    "Welsh": "Mae hen wlad fy nhadau yn annwyl i mi, gwlad beirdd a chantorion, enwogion o fri; ei "
    "gwrol ryfelwyr, gwladgarwyr tra mad, tros ryddid collasant eu gwaed.",
}


def _layer(folder: Path, data: bytes) -> tuple[pages.Line, ...] | None:
    path = folder / "a.pdf"
    path.write_bytes(data)
    with contextlib.closing(open_document(path, _LIMITS)) as document:
        return document.open_page(1).read_text_layer()


def _texts(lines: tuple[pages.Line, ...] | None) -> list[str]:
    assert lines is not None
    return [line.text for line in lines]


def test_words_and_lines_are_those_of_the_page(tmp_path: Path) -> None:
    """Lines consist of their words, in the order of the file, with confidence 1."""
    lines = _layer(tmp_path, samples.make_text_pdf(samples.PROSE))

    assert lines is not None
    assert list(samples.PROSE) == _texts(lines)
    for line in lines:
        assert line.text.split(" ") == [word.text for word in line.words]
        assert {1.0} == {line.confidence, *(word.confidence for word in line.words)}


def test_a_word_broken_at_the_end_of_a_line_keeps_its_hyphen(tmp_path: Path) -> None:
    """Both parts keep their positions."""
    lines = _layer(
        tmp_path, samples.make_text_pdf(["a long co-", "operation of all", "well-known men"])
    )

    assert _texts(lines) == ["a long co-", "operation of all", "well-known men"]


def test_characters_mean_what_the_file_says(tmp_path: Path) -> None:
    """Ligatures are letters, soft hyphens stay, and so do characters beyond 65,536."""
    meanings = {"f": "fi", "q": "\N{GRINNING FACE}", "z": "\N{LATIN SMALL LIGATURE FL}"}

    lines = _layer(tmp_path, samples.mapped_pdf(meanings, ["the frst q zower was red"]))

    assert _texts(lines) == ["the first \N{GRINNING FACE} flower was red"]


def test_sideways_text_is_not_split_into_letters(tmp_path: Path) -> None:
    """Its words and lines are whole, and their first corner is where the text begins."""
    lines = _layer(tmp_path, samples.sideways_pdf())

    assert lines is not None
    assert list(samples.PROSE) == _texts(lines)
    for line in lines:
        first, second, third, fourth = line.quad
        assert first.y > second.y + 500
        assert fourth.x > first.x
        assert abs(first.x - second.x) < 1
        assert abs(third.x - fourth.x) < 1


def test_words_without_blanks_are_split_at_gaps(tmp_path: Path) -> None:
    """Some producers replace blanks by offsets, and kern letters."""
    spaced = "(The) -220 (gar) -40 (den) -220 (be) 30 (hind) -220 (us)"

    assert _texts(_layer(tmp_path, samples.kerned_pdf(spaced))) == ["The garden behind us"]


def test_letterspaced_heading_has_words(tmp_path: Path) -> None:
    """Its letters are not split into words."""
    heading = samples.kerned_pdf("(THE OLD HOUSE)", spacing=5)

    assert _texts(_layer(tmp_path, heading)) == ["THE OLD HOUSE"]


def test_columns_are_lines_of_their_own(tmp_path: Path) -> None:
    """A wide gap ends a line."""
    lines = _layer(tmp_path, samples.make_text_pdf(["left" + " " * 30 + "right"]))

    assert _texts(lines) == ["left", "right"]


_HEBREW = ["הספר (כרך שני) נדפס בשנת 1948", "ובו פרק 12.5 על Windows XP של הארץ."]
_SECOND_VISUAL = ".ץראה לש Windows XP לע 12.5 קרפ ובו"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(["1948 תנשב ספדנ (ינש ךרכ) רפסה", _SECOND_VISUAL], id="as it stands"),
        pytest.param(["1948 תנשב ספדנ )ינש ךרכ( רפסה", _SECOND_VISUAL], id="brackets not mirrored"),
        pytest.param(_HEBREW, id="in logical order"),
    ],
)
def test_text_from_right_to_left_is_in_logical_order(tmp_path: Path, written: list[str]) -> None:
    """Whatever order a producer writes letters in; numbers and Latin words stay."""
    assert _texts(_layer(tmp_path, _in_letters_of(written))) == _HEBREW


def test_mirrored_text_is_upright_and_in_order(tmp_path: Path) -> None:
    """Tesseract writes its layers so: letters follow each other to the left in logical order."""
    lines = samples.mirrored_pdf({"a": "ש", "b": "ל", "c": "ם"}, ["abc", "bc"])

    assert _texts(_layer(tmp_path, lines)) == ["שלם", "לם"]


@pytest.mark.parametrize("ligature", ["لا", "ال"])
def test_the_letters_of_an_arabic_ligature_are_in_order(tmp_path: Path, ligature: str) -> None:
    """Some producers say what a ligature means in the order of the letters, some turned round."""
    data = samples.mapped_pdf(
        {"a": "\N{ARABIC LETTER ALEF}", "b": "ب", "d": "د", "l": "ل", "x": ligature},
        ["dxbla", "bxb xb"],
    )

    assert _texts(_layer(tmp_path, data)) == ["البلاد", "بلا بلاب"]


def _in_letters_of(lines: list[str]) -> bytes:
    """Write lines from left to right, in a font that has all their letters."""
    used = sorted(set("".join(lines)) - {" "})
    codes = dict(zip(used, string.ascii_letters, strict=False))
    return samples.mapped_pdf(
        {code: letter for letter, code in codes.items()},
        ["".join(codes.get(letter, letter) for letter in line) for line in lines],
    )


@pytest.mark.parametrize(
    ("damage", "data"),
    [
        ("shifted letters", samples.gibberish_pdf()),
        ("private use", samples.mapped_pdf({c: chr(0xF000 + ord(c)) for c in "aeiou"})),
        ("replacement characters", samples.mapped_pdf(dict.fromkeys("aeiou", "\ufffd"))),
        ("control characters", samples.mapped_pdf(dict.fromkeys("aeiou", "\x05"))),
        ("all the same", samples.mapped_pdf(dict.fromkeys(string.ascii_letters, "a"))),
        ("accents", samples.mapped_pdf({c: chr(ord(c) + 128) for c in string.ascii_letters})),
        ("symbols", samples.mapped_pdf(dict(zip("aeioutnrsh", "!$%&/()?<>", strict=True)))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gibberish_is_detected(tmp_path: Path, damage: str, data: bytes) -> None:
    """Text that looks right, and whose characters mean something else, is read by an engine."""
    assert _layer(tmp_path, data) is None, damage


def test_shuffled_letters_are_detected(tmp_path: Path) -> None:
    """Subsets of fonts number their letters as they come."""
    for seed in range(8):
        letters = np.random.default_rng(seed).permutation(list(string.ascii_lowercase)).tolist()
        data = samples.mapped_pdf(dict(zip(string.ascii_lowercase, letters, strict=True)))

        assert _layer(tmp_path, data) is None


@pytest.mark.parametrize("tongue", _OTHER_TONGUES)
def test_text_in_any_language_is_readable(tongue: str) -> None:
    """No dictionary is needed to tell, and no language to be known."""
    text = _OTHER_TONGUES[tongue]

    signs = text_layer.measure_text([ord(char) for char in text if char != " "], [text])

    assert signs.pairs > 60
    assert text_layer.is_readable(signs, unmapped_share=1.0)


@pytest.mark.parametrize(
    "text",
    [
        "Чтобы понять это, нужно прожить здесь много лет и зим.",
        "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
        "1,200.00 3,400.00 12 % 7,000.00 100 % 0.00 0.00 0.00 0.00",
        "Chapter 1 ............................................ 7",
        "HTML, CSS; x = f(y) + 1",
    ],
)
def test_other_scripts_and_digits_are_readable(text: str) -> None:
    """Text that cannot be measured is trusted."""
    signs = text_layer.measure_text([ord(char) for char in text if char != " "], [text])

    assert text_layer.is_readable(signs, unmapped_share=0.0)


def test_text_objects_without_characters_make_a_layer_untrusted(tmp_path: Path) -> None:
    """PDFium silently omits text without a font."""
    assert _layer(tmp_path, samples.make_text_pdf(["All", *["   "] * 5])) is not None
    assert _layer(tmp_path, samples.make_text_pdf(["All", *["   "] * 50])) is None


def test_text_outside_the_page_is_not_a_layer(tmp_path: Path) -> None:
    """Invisible text is not used; clipped text is left out."""
    beside = samples.make_text_pdf(samples.PROSE, crop=(0, 0, 612, 300))
    partly = samples.make_text_pdf(samples.PROSE, crop=(0, 650, 612, 792))

    assert _layer(tmp_path, beside) is None
    assert list(samples.PROSE[:3]) == _texts(_layer(tmp_path, partly))


def test_a_good_layer_over_a_scan_is_used(tmp_path: Path) -> None:
    """It is good OCR of another program."""
    data = samples.scan_pdf(samples.drawn(), layer=samples.PROSE)

    assert list(samples.PROSE) == _texts(_layer(tmp_path, data))


@pytest.mark.parametrize(
    ("layer", "stamp"),
    [
        ((), "Filed 03/04/2021 Page 3 of 20"),
        (samples.PROSE[:3], ""),
        (("Page 12 of the book",), "ABC000123"),
    ],
    ids=["stamp", "half", "page number"],
)
def test_layer_that_does_not_cover_the_ink_is_not_used(
    tmp_path: Path, layer: tuple[str, ...], stamp: str
) -> None:
    """Examples are stamps, page numbers and half a page."""
    data = samples.scan_pdf(samples.drawn(), layer=layer, stamp=stamp)

    assert _layer(tmp_path, data) is None


@pytest.mark.parametrize(
    "line",
    [
        "in an es to me un la de so we it as on at be is or he",
        "tov tots snyotwrs ex xatudlung diouevqr exelevosv ex tov",
        "the [house] (was) (old) [full] of {roses} [so] the house",
    ],
    ids=["syllables", "another script", "brackets"],
)
def test_poor_ocr_of_a_scan_is_not_used(tmp_path: Path, line: str) -> None:
    """It would suffice for a digital page, but our own OCR of a scan is better."""
    layer = [line] * 6
    data = samples.scan_pdf(samples.drawn(layer), layer=layer)

    assert text_layer.is_readable(
        text_layer.measure_text([*map(ord, line)], layer), unmapped_share=0.0
    )
    assert _layer(tmp_path, data) is None


def test_light_letters_on_dark_background_are_ink(tmp_path: Path) -> None:
    """Slides have white text on an image; a stamp is not a sufficient layer there either."""
    inverted = samples.drawn().point(lambda value: 255 - value)

    assert _layer(tmp_path, samples.scan_pdf(inverted, stamp="Filed")) is None
    assert _layer(tmp_path, samples.scan_pdf(inverted, layer=samples.PROSE)) is not None


def test_every_page_is_checked_separately(tmp_path: Path) -> None:
    """One file may hold letters, scans of letters and broken ones."""
    path = tmp_path / "a.pdf"
    path.write_bytes(samples.joined(samples.make_text_pdf(samples.PROSE), samples.gibberish_pdf()))
    with contextlib.closing(open_document(path, _LIMITS)) as document:
        layers = [document.open_page(number).read_text_layer() for number in (1, 2)]

    assert [layer is not None for layer in layers] == [True, False]


@hypothesis.given(st.text())
def test_any_text_can_be_measured(text: str) -> None:
    """Shares are shares, whatever a file holds."""
    codes = [ord(char) for char in text]

    signs = text_layer.measure_text(codes, [text])

    for share in (signs.junk, signs.symbols, signs.most_frequent, signs.accents, signs.likely):
        assert 0 <= share <= 1
    assert len(codes) == signs.count


@hypothesis.given(st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1), max_size=30))
def test_folding_removes_case_and_accents(words: list[str]) -> None:
    """Capitals and accents change nothing about which letters follow each other."""
    text = " ".join(words)

    assert words == text_layer.fold_words(text.upper())
    assert words == text_layer.fold_words("".join(f"{char}\u0301" for char in text))


def test_coverage_is_measured_on_the_ink() -> None:
    """A blank scan is covered by anything, and one with text by boxes over it only."""
    sketch = np.asarray(samples.drawn(size=(850, 1100)))
    boxes = [pages.Box(*box) for box in samples.line_boxes(size=(850, 1100))]
    lines = [pages.Line("x", box.quad(), 1.0, (pages.Word("x", box.quad(), 1.0),)) for box in boxes]

    assert text_layer.covers_ink(lines, sketch, width=850)
    assert not text_layer.covers_ink(lines[:3], sketch, width=850)
    assert not text_layer.covers_ink(lines, sketch, width=1700)
    assert text_layer.covers_ink([], np.full((1100, 850), 255, np.uint8), width=850)
