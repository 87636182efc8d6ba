"""Faults that show in the text itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.checks.rules import text_rules
from pagewarden.checks.rules.result import IssueKind
from pagewarden.ocr import pages
from tests.checks import written


def kinds(text: str, language: str | None = "en") -> set[IssueKind]:
    """Find the faults of one line."""
    return {issue.kind for issue in text_rules.find_text_issues(written.page(text), language)}


@pytest.mark.parametrize(
    "text",
    [
        "Hello {name}", "Hello {{ user.name }}", "%s files", "%d of %d", "%1$s sent", "Hi %@!",
        "%(count)s new", "$t(home.title)", "${user}", "#{user}", "<%= name %>", "{0} left",
        "Hello (name}", "Hello {name)", "((count)) files",
        "Show (0) more", "مرحبا {name}", "{name}さん", "{count}件",
    ],
)  # fmt: skip
def test_placeholders_left_unfilled(text: str) -> None:
    """Those of most libraries, also where one brace was misread."""
    assert kinds(text) == {IssueKind.PLACEHOLDER}


@pytest.mark.parametrize(
    "text",
    [
        "100 % sicher", "50% discount", "5 %", "100%", "(optional)", "[1] see below", "$5 off",
        "Save 20 % today", "a < b > c", "f(x) = 2", "50 % de réduction", "100 % Spaß",
        "Preis: 5 $ (netto)", "Inbox (0)", "100%ige Sicherheit",
    ],
)  # fmt: skip
def test_signs_that_are_no_placeholders(text: str) -> None:
    """Per cents, prices and brackets are left alone."""
    assert kinds(text) == set()


@pytest.mark.parametrize(
    "text",
    ["Änderungen löschen", "Paramètres", "l\u2019été", "Настройки", "ñandú", "żółw", "ça y est"],
)
def test_text_in_the_wrong_character_set(text: str) -> None:
    """UTF-8 taken for Windows-1252 is seen, and the same text as it should be is fine."""
    assert kinds(text.encode().decode("cp1252", "replace")) & {
        IssueKind.MOJIBAKE,
        IssueKind.MISSING_GLYPH,
    }
    assert kinds(text) == set()


@pytest.mark.parametrize(
    "text",
    ["NÃO", "SÃO PAULO", "ÂNGULO", "Ñandú", "CORAÇÃO", "50 m² groß", "© 2026 Example", "25°C"],
)
def test_letters_that_are_no_mojibake(text: str) -> None:
    """Portuguese capitals, units and signs are left alone."""
    assert kinds(text, "pt") == set()


@pytest.mark.parametrize(
    "text", ["Gr□□e", "Caf\ufffd", "▯▯▯▯ OK", "Tik [", "000] OK", "0000 OK", "de [| OK"]
)
def test_boxes_for_missing_glyphs(text: str) -> None:
    """Boxes and replacement characters are seen."""
    assert IssueKind.MISSING_GLYPH in kinds(text)


def test_a_name_of_programs_in_parentheses_is_a_placeholder_but_in_english() -> None:
    """Both braces were misread; in English it may be a word."""
    assert kinds("Bonjour (name)", "fr") == {IssueKind.PLACEHOLDER}
    assert kinds("Type it (name) here", "en") == set()
    assert kinds("Bonjour (nom)", "fr") == set()


def test_a_mouth_is_no_box_where_it_is_a_word() -> None:
    """The ideograph that looks like a box is one only where no ideographs are."""
    assert kinds("口口", "de") == {IssueKind.MISSING_GLYPH}
    assert kinds("入口 口口", "ja") == set()
    assert kinds("入□", "ja") == {IssueKind.MISSING_GLYPH}


@pytest.mark.parametrize(
    ("box", "side"),
    [
        (pages.Box(0, 100, 300, 120), "left"),
        (pages.Box(700, 100, written.WIDTH, 120), "right"),
        (pages.Box(100, 0, 300, 9), "top"),
        (pages.Box(100, 790, 300, written.HEIGHT), "bottom"),
        (pages.Box(8, 100, 300, 120), None),
        (pages.Box(0, 0, written.WIDTH, written.HEIGHT), None),
    ],
)
def test_text_that_runs_into_the_edge(box: pages.Box, side: str | None) -> None:
    """The side is named; near the edge is not at it, and a sign there is no text."""
    page = written.page("Enregistrer")
    line = replace(page.lines[0], quad=box.quad())
    found = list(text_rules.find_text_issues(replace(page, lines=(line,)), "fr"))
    assert [issue.kind for issue in found] == ([IssueKind.CUT_OFF] if side else [])
    assert all(f"the {side} edge" in issue.message for issue in found)
    assert not list(
        text_rules.find_text_issues(replace(page, lines=(replace(line, text="|"),)), "fr")
    )


def test_an_issue_is_drawn_on_its_words() -> None:
    """Not on all of the line."""
    (issue,) = text_rules.find_text_issues(written.page("Hello {name} again"), "en")
    assert issue.quad == written.box(0, 6, 12)


@given(
    st.text(st.characters(categories=["L", "Zs"], exclude_characters="口ロ日田囗ÂÃĀÄÅÆÇÈÉÎÏÐÑªº"))
)
def test_words_alone_are_no_fault(text: str) -> None:
    """Letters and spaces of any script are never a placeholder, mojibake or a box."""
    assert kinds(text) == set()


def test_without_a_language_the_script_decides_what_is_a_box() -> None:
    """Engines take boxes for ideographs, which are text among others; (name) may be English."""
    assert kinds("Datei 口口口 sichern", None) == {IssueKind.MISSING_GLYPH}
    assert kinds("出口はこちら 日田", None) == set()
    assert kinds("Enter it (name)", None) == set()
