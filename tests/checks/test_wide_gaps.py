"""What engines leave out of a line shows in how wide it is."""

from __future__ import annotations

from dataclasses import replace

from pagewarden.checks.rules import text_rules
from pagewarden.ocr import pages
from tests.checks import written

LINES = ["Votre mot de passe", "Rechercher des amis", "Choisir une langue", "Tout supprimer"]


def stretched(line: pages.Line, index: int, by: float) -> pages.Line:
    """Widen a word, and the line with it, as if something unread stood beside it."""
    words = []
    for number, word in enumerate(line.words):
        box = pages.bounding_box(word.quad)
        left = box.left + (by if number > index else 0)
        right = box.right + (by if number >= index else 0)
        words.append(replace(word, quad=box._replace(left=left, right=right).quad()))
    box = pages.bounding_box(line.quad)
    return replace(line, quad=box._replace(right=box.right + by).quad(), words=tuple(words))


def found(lines: tuple[pages.Line, ...]) -> list[tuple[str, str]]:
    """Find the gaps."""
    return [(line.text, word.text) for line, word in text_rules.find_wide_gaps(lines)]


def test_a_word_that_is_too_wide_is_found() -> None:
    """Wherever it stands in its line; a little more room is nothing."""
    lines = written.page(*LINES).lines
    assert found(lines) == []
    for index, word in enumerate(["Rechercher", "des", "amis"]):
        wide = stretched(lines[1], index, by=120)
        assert found((lines[0], wide, *lines[2:])) == [(LINES[1], word)]
        little = stretched(lines[1], index, by=25)
        assert found((lines[0], little, *lines[2:])) == []


def test_nothing_is_said_where_nothing_can_be_compared() -> None:
    """Two lines are too few, a word alone has no neighbours, and capitals are wide."""
    lines = written.page(*LINES, "Annuler", "TOUT CHOISIR").lines
    assert found((lines[0], stretched(lines[1], 0, by=120))) == []
    assert found((*lines[:4], stretched(lines[4], 0, by=120))) == []
    assert found((*lines[:4], stretched(lines[5], 0, by=120))) == []


def test_words_that_overlap_are_not_trusted() -> None:
    """The engine lost track of them."""
    lines = written.page(*LINES).lines
    wide = stretched(lines[1], 0, by=120)
    first = replace(wide.words[0], quad=wide.quad)
    assert found((lines[0], replace(wide, words=(first, *wide.words[1:])), *lines[2:])) == []
