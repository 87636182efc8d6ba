"""All formats say the same, whatever was read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewarden import exports
from pagewarden.exports import base
from pagewarden.ocr import pages
from tests.exports import readers, samples

ORIGINAL = Path("nothing-is-read-from-it")


@given(samples.documents(), st.text(samples.characters, min_size=1))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_format_has_the_text_of_the_text_export(
    document: list[pages.ReadPage], name: str
) -> None:
    """Text, blocks and pages agree exactly, for any characters, boxes and words."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for kind, read_back in readers.TEXT_OF.items():
            target = Path(folder) / kind
            exports.write(kind, iter(document), ORIGINAL, target, name=name)
            found[kind] = read_back(target)
    expected = [base.clean_page(page).text for page in document]
    assert found.pop("txt") == (expected or [""])
    assert found == dict.fromkeys(found, expected)


def test_ordinary_text_is_exported_as_it_was_read(tmp_path: Path) -> None:
    """What needs no tidying is not changed, and a page is empty where it failed."""
    target = tmp_path / "letter.txt"
    exports.write("txt", samples.LETTER, ORIGINAL, target, name="letter.pdf")
    assert target.read_text("utf-8") == (
        "Dear Ms Müller,\n\nwe write to you — again.\n\f\fBest regards\n"
    )


@given(samples.lines())
def test_the_words_of_a_tidied_line_spell_it(line: pages.Line) -> None:
    """Joined by the spaces that stand before them, the words are the text."""
    for tidied in base.clean_page(samples.page(line)).lines:
        spelled = "".join(" " * space + word.text for space, word in base.iterate_words(tidied))
        assert spelled == tidied.text
        assert tidied.text.split() == tidied.text.split(" ")


@given(st.text(samples.characters))
def test_clean_text_can_be_carried_and_stays_clean(text: str) -> None:
    """UTF-8 and XML accept it, and cleaning twice is cleaning once."""
    cleaned = base.clean_text(text)
    cleaned.encode("utf-8")
    assert base.clean_text(cleaned) == cleaned


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("  two\u00a0\t words\n", "two words"),
        ("a\x00b\x1bc", "a\ufffdb\ufffdc"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("ideographic\u3000space", "ideographic space"),
        ("zero\u200dwidth", "zero\u200dwidth"),
    ],
)
def test_dirty_text_is_cleaned(dirty: str, cleaned: str) -> None:
    """White space is one space, what XML cannot carry is the replacement character."""
    assert base.clean_text(dirty) == cleaned


def test_words_of_a_script_without_spaces_stay_together() -> None:
    """Two words of which the line says that nothing stands between them."""
    words = (samples.word("東", 100, 100), samples.word("京", 112, 100))
    line = pages.Line("東京", samples.line("東京").quad, 0.9, words)
    (tidied,) = base.clean_page(samples.page(line)).lines
    assert [(space, word.text) for space, word in base.iterate_words(tidied)] == [
        (False, "東"),
        (False, "京"),
    ]


def test_a_corrected_line_keeps_the_places_of_its_words() -> None:
    """As many words as before stand where those stood."""
    line = samples.line("the qvick fox")
    (tidied,) = base.clean_page(samples.page(pages.Line("the quick fox", *_rest(line)))).lines
    assert [word.text for word in tidied.words] == ["the", "quick", "fox"]
    assert [word.quad for word in tidied.words] == [word.quad for word in line.words]


def test_a_line_that_was_rewritten_is_cut_by_the_length_of_its_words() -> None:
    """Another number of words shares the line among them."""
    line = samples.line("aa bb")
    (tidied,) = base.clean_page(samples.page(pages.Line("aaa b c", *_rest(line)))).lines
    left, _, right, _ = pages.bounding_box(line.quad)
    boxes = [pages.bounding_box(word.quad) for word in tidied.words]
    assert [word.text for word in tidied.words] == ["aaa", "b", "c"]
    assert boxes[0].left == left
    assert boxes[0].right == pytest.approx(left + (right - left) * 3 / 7)
    assert boxes[2].right == pytest.approx(right)


def test_a_rewritten_line_of_hebrew_begins_at_the_right() -> None:
    """Where words are cut out of a line, its script decides which end comes first."""
    line = samples.line("x")
    (tidied,) = base.clean_page(samples.page(pages.Line("שלום עולם", *_rest(line)))).lines
    first, second = (pages.bounding_box(word.quad) for word in tidied.words)
    assert first.left > second.right


def _rest(line: pages.Line) -> tuple[pages.Quad, float, tuple[pages.Word, ...], int]:
    return line.quad, line.confidence, line.words, line.block
