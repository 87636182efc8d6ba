"""The check of one picture."""

from __future__ import annotations

import json
from dataclasses import replace

from benchmarks.checks import run, screens
from pagewarden.checks import checking, languages
from pagewarden.checks.report import Kind, Report, Severity, Verdict
from pagewarden.reading import pages
from tests.checks import written


def check(
    lines: list[str], expected: list[str] | None = None, language: str = "fr", *allowed: str
) -> Report:
    """Check a page of these lines; in no language where that is empty."""
    known = languages.find(language) if language else None
    return checking.check(written.page(*lines), expected, known, allowed)


def kinds(report: Report) -> list[Kind]:
    """List what was found."""
    return [issue.kind for issue in report.issues]


def test_a_picture_as_it_should_be_passes() -> None:
    """With references and without."""
    lines = ["Enregistrer les modifications", "Votre mot de passe est trop court."]
    for expected in (None, lines):
        report = check(lines, expected)
        assert (report.verdict, report.issues) == (Verdict.PASS, ())
        assert report.match is (None if expected is None else True)


def test_a_soft_match_is_a_note_and_passes() -> None:
    """Somebody may read it, and nobody has to."""
    report = check(["PARAMETRES"], ["Paramètres"])
    assert kinds(report) == [Kind.SOFT_MATCH]
    assert report.issues[0].severity is Severity.NOTE
    assert (report.verdict, report.match) == (Verdict.PASS, True)


def test_each_issue_has_a_place_a_sentence_and_a_diff() -> None:
    """What is missing has no place, for nothing is there."""
    report = check(
        ["Enregistrer les photos", "Annuler Truc Bidule"],
        ["Enregistrer les modifications", "Annuler", "Supprimer"],
    )
    different, missing, extra = report.issues
    assert different.quad == written.box(0, 0, 22)
    assert different.diff[0].text.startswith("Enregistrer les ")
    assert "'Enregistrer les photos' is there" in different.message
    assert (missing.kind, missing.quad) == (Kind.MISSING, None)
    assert (extra.kind, extra.quad) == (Kind.EXTRA, written.box(1, 8, 19))
    assert (report.verdict, report.match) == (Verdict.MANUAL, False)


def test_a_string_over_two_lines_is_framed_as_one() -> None:
    """The box goes round both."""
    report = check(["Enregistrer les", "PHOTOS"], ["Enregistrer les photos"])
    box = pages.Box(100, 100, 250, 170)
    assert (kinds(report), report.issues[0].quad) == ([Kind.SOFT_MATCH], box.quad())


def test_untranslated_text_is_told_from_another_language() -> None:
    """English is what programs are written in; with references it is no mere extra."""
    assert kinds(check(["Your password is too short."])) == [Kind.UNTRANSLATED]
    assert kinds(check(["Ihr Passwort ist zu kurz."])) == [Kind.WRONG_LANGUAGE]
    report = check(["Your password is too short."], ["Votre mot de passe est trop court."])
    assert set(kinds(report)) == {Kind.UNTRANSLATED, Kind.MISSING}


def test_without_a_language_strings_and_faults_are_checked() -> None:
    """The report says that the language was not."""
    lines = ["Your password is too short.", "Hallo {name}"]
    report = check(lines, language="")
    assert kinds(report) == [Kind.PLACEHOLDER]
    assert (report.as_json()["language"], report.as_json()["languageChecked"]) == (None, False)
    report = check(lines, ["Your password is too short.", "Hallo Ada"], language="")
    assert set(kinds(report)) == {Kind.PLACEHOLDER, Kind.DIFFERENT}
    extra = check(lines, ["Your password is too short."], language="")
    assert set(kinds(extra)) == {Kind.PLACEHOLDER, Kind.EXTRA}
    assert check(lines).as_json()["languageChecked"] is True


def test_what_is_expected_may_be_in_any_language() -> None:
    """The references know better."""
    assert check(["Your password is too short."], ["Your password is too short."]).issues == ()


def test_allowed_texts_are_neither_foreign_nor_extra() -> None:
    """As words, or as a whole."""
    assert check(["Keep it simple and safe"], None, "fr", "Keep it simple and safe").issues == ()
    assert check(["Acme"], [], "fr", "acme").issues == ()
    assert kinds(check(["Acme"], [], "fr")) == [Kind.EXTRA]


def test_numbers_and_single_letters_are_never_extra() -> None:
    """A clock or an icon that looks like a letter needs no reference."""
    assert check(["9:41", "100 %", "X", "OK"], ["OK"]).issues == ()


def test_a_picture_without_text_is_looked_at() -> None:
    """Unless nothing else was expected and something is there."""
    assert kinds(check([])) == [Kind.NO_TEXT]
    assert kinds(check([], ["Annuler"])) == [Kind.MISSING]
    assert check([]).verdict is Verdict.MANUAL


def test_a_broken_line_is_not_judged_by_its_language() -> None:
    """Mojibake is one fault, not two."""
    broken = "Paramètres de l'été à vérifier".encode().decode("cp1252", "replace")
    assert kinds(check([broken])) == [Kind.MOJIBAKE]


def test_text_at_the_edge_is_not_cut_off_where_all_of_it_is_there() -> None:
    """The references say where it ends."""
    page = written.page("Enregistrer tout")
    line = replace(page.lines[0], quad=pages.Box(600, 100, page.width, 120).quad())
    page = replace(page, lines=(line,))
    french = languages.find("fr")
    assert kinds(checking.check(page, None, french)) == [Kind.CUT_OFF]
    assert kinds(checking.check(page, ["Enregistrer tout"], french)) == []
    found = kinds(checking.check(page, ["Enregistrer tout de suite"], french))
    assert found == [Kind.CUT_OFF, Kind.TRUNCATED]


def test_blank_strings_are_not_expected() -> None:
    """A reference of spaces asks for nothing."""
    assert (
        check(["Annuler"], ["Annuler", "  ", "\u200b"]).strings
        == check(["Annuler"], ["Annuler"]).strings
    )


def test_a_report_goes_through_json() -> None:
    """With all that a program needs."""
    report = check(["Enregistrer les photos"], ["Enregistrer les modifications"])
    data = json.loads(json.dumps(report.as_json()))
    assert data["verdict"] == "MANUAL"
    assert data["extractedText"] == "Enregistrer les photos"
    assert data["strings"][0]["verdict"] == "different"
    (issue,) = data["issues"]
    assert (issue["kind"], issue["severity"], len(issue["quad"])) == ("different", "error", 4)


def read(screen: screens.Screen) -> tuple[pages.ReadPage, list[pages.Box | None]]:
    """Read a screen of the benchmark as an engine without mistakes would."""
    rows = [row for row in screen.rows if row.drawn is not None]
    page = written.page(*((row.drawn or "").replace(screens.NO_SUCH_GLYPH, "□") for row in rows))
    lines = [
        replace(line, quad=pages.bounds(line.quad)._replace(right=page.width).quad())
        if row.overflows
        else line
        for line, row in zip(page.lines, rows, strict=True)
    ]
    places = {row: pages.bounds(line.quad) for row, line in zip(rows, lines, strict=True)}
    return replace(page, lines=tuple(lines)), [places.get(row) for row in screen.rows]


def test_planted_faults_are_found_where_nothing_is_misread() -> None:
    """All screens of the benchmark: what is left to go wrong is what a language can be told by."""
    pairs = []
    for screen in screens.screens(200, seed=1):
        page, boxes = read(screen)
        report = checking.check(page, screen.expected, languages.find(screen.language))
        pairs.append((run.planted(screen), run.reported(screen, boxes, report)))
    scores = run.score(pairs)
    assert scores.keys() >= {*Verdict, *(kind for kind in Kind if kind is not Kind.NO_TEXT)}
    guessed = {Kind.UNTRANSLATED, Kind.WRONG_LANGUAGE, run.FAULTS, run.OVERALL, *Verdict}
    for name, score in scores.items():
        least = 0.94 if name in guessed else 1.0
        assert (name, score.precision >= least, score.recall >= least) == (name, True, True), score
