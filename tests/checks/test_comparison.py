"""Expected strings are found wherever they stand, and judged."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pagewarden.checks.rules import comparison
from pagewarden.checks.rules.comparison import Change, DiffSegment, Verdict

WORDS = st.text("abcdefgxyzéßщש", min_size=2, max_size=8)
STRINGS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


def verdicts(expected: list[str], *lines: str) -> list[tuple[str, str]]:
    """Compare, and give each verdict with what it is about."""
    found = comparison.compare(expected, comparison.PageTokens(lines))
    return [(one.verdict, one.expected or one.found) for one in found]


@pytest.mark.parametrize(
    ("expected", "lines", "verdict"),
    [
        ("Enregistrer", ["Enregistrer"], "match"),
        ("l\u2019été", ["l'été"], "match"),
        ("Illusion", ["lIlusion"], "match"),
        ("Prix :", ["Prix :"], "match"),
        ("a long text over lines", ["a long text", "over lines"], "match"),
        ("設定を保存", ["設定を", "保存"], "match"),
        ("保存", ["設定を保存する"], "match"),
        ("שמור שינויים", ["שמור שינויים"], "match"),
        ("Total", ["Total 12,50 €"], "match"),
        ("Paramètres", ["PARAMETRES"], "soft match"),
        ("We are here", ["Weare here"], "soft match"),
        ("Room 10", ["Room lO"], "soft match"),
        ("Save the changes now", ["Save the ch"], "truncated"),
        ("Save the changes now", ["Save the cha…"], "truncated"),
        ("Save the changes now", ["the changes now"], "truncated"),
        ("שמור את השינויים", ["שמור את הש"], "truncated"),
        ("Save the changes", ["Save the pictures"], "different"),
        ("10,5 kg", ["105 kg"], "different"),
        ("Save the whole page", ["Save the other", "page"], "different"),
        ("Save", ["Löschen"], "missing"),
        ("Save", [], "missing"),
        ("か行のテスト", ["漢字"], "missing"),
    ],
)
def test_a_string_is_judged(expected: str, lines: list[str], verdict: str) -> None:
    """Each verdict has its cases, in several scripts."""
    assert verdicts([expected], *lines)[0] == (verdict, expected)


def test_what_nobody_expected_is_extra() -> None:
    """Also where it stands in a line with something expected."""
    found = verdicts(["OK"], "OK Later", "Never")
    assert found == [("match", "OK"), ("extra", "Later"), ("extra", "Never")]


def test_a_line_of_its_own_goes_before_a_part_of_one() -> None:
    """So that what is left makes sense."""
    assert verdicts(["Save"], "Save as", "Save") == [("match", "Save"), ("extra", "Save as")]


def test_a_text_is_found_once_only() -> None:
    """Two strings that are equal need two places."""
    assert [one for one, _ in verdicts(["Save", "Save"], "Save")] == ["match", "missing"]


def test_a_better_find_goes_first() -> None:
    """What is equal is not taken by what is only alike, whatever their order."""
    found = verdicts(["Resume", "Résumé"], "Résumé", "Resume")
    assert found == [("match", "Resume"), ("match", "Résumé")]
    found = verdicts(["Delete all files", "Delete a file"], "Delete a file")
    assert found == [("missing", "Delete all files"), ("match", "Delete a file")]


def test_a_diff_goes_by_what_a_reader_calls_a_letter() -> None:
    """A letter and its marks are never taken apart."""
    assert comparison.diff("नमस्ते", "नमस्तू")[-2:] == (
        DiffSegment(Change.MISSING, "ते"),
        DiffSegment(Change.EXTRA, "तू"),
    )
    assert comparison.diff("x\u0323\u0301y", "xy")[:2] == (
        DiffSegment(Change.MISSING, "x\u0323\u0301"),
        DiffSegment(Change.EXTRA, "x"),
    )


@given(st.lists(STRINGS, min_size=1, max_size=6))
def test_what_is_there_matches(strings: list[str]) -> None:
    """A page of exactly the expected strings, in any order, is all matches."""
    found = verdicts(strings, *reversed(strings))
    assert {verdict for verdict, _ in found} == {Verdict.MATCH}
    assert len(found) == len(strings)


@given(st.lists(STRINGS, max_size=5), st.lists(STRINGS, max_size=5))
def test_each_string_has_one_verdict_and_each_word_one_use(
    expected: list[str], lines: list[str]
) -> None:
    """Nothing is judged twice, nothing is left out, and no token has two owners."""
    page = comparison.PageTokens(lines)
    found = comparison.compare(expected, page)
    assert [one.expected for one in found[: len(expected)]] == expected
    used = [index for one in found if one.tokens for index in one.tokens]
    assert sorted(used) == list(range(len(page.tokens)))


@given(STRINGS, STRINGS)
def test_a_diff_has_both_texts(expected: str, found: str) -> None:
    """Without what is extra it is the expected one, without what is missing the other one."""
    pieces = comparison.diff(expected, found)
    left = "".join(piece.text for piece in pieces if piece.change is not Change.EXTRA)
    right = "".join(piece.text for piece in pieces if piece.change is not Change.MISSING)
    assert (left, right) == (expected, found) or "e\u0301" in expected + found


@given(STRINGS, STRINGS)
def test_being_different_is_mutual(one: str, other: str) -> None:
    """Which of two texts was expected makes no difference to how alike they are."""
    there, back = comparison.rate_similarity(one, other), comparison.rate_similarity(other, one)
    assume(Verdict.TRUNCATED not in {rated[1] for rated in (there, back) if rated})
    assert there == back
