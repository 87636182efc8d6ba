"""The check of one picture."""

from __future__ import annotations

import json
from dataclasses import replace

from benchmarks.checks import run, screens
from pagewarden.checks.rules import check as rules_check
from pagewarden.checks.rules import languages
from pagewarden.checks.rules.result import CheckResult, IssueKind, Severity, Verdict
from pagewarden.ocr import pages
from tests.checks import written


def check(
    lines: list[str], expected: list[str] | None = None, language: str = "fr", *allowed: str
) -> CheckResult:
    """Check a page of these lines; in no language where that is empty."""
    known = languages.find_language(language) if language else None
    return rules_check.check(written.page(*lines), expected, known, allowed)


def kinds(report: CheckResult) -> list[IssueKind]:
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
    assert kinds(report) == [IssueKind.SOFT_MATCH]
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
    assert "found 'Enregistrer les photos'" in different.message
    assert (missing.kind, missing.quad) == (IssueKind.MISSING, None)
    assert (extra.kind, extra.quad) == (IssueKind.EXTRA, written.box(1, 8, 19))
    assert (report.verdict, report.match) == (Verdict.MANUAL, False)


def test_a_string_over_two_lines_is_framed_as_one() -> None:
    """The box goes round both."""
    report = check(["Enregistrer les", "PHOTOS"], ["Enregistrer les photos"])
    box = pages.Box(100, 100, 250, 170)
    assert (kinds(report), report.issues[0].quad) == ([IssueKind.SOFT_MATCH], box.quad())


def test_untranslated_text_is_told_from_another_language() -> None:
    """English is what programs are written in; with references it is no mere extra."""
    assert kinds(check(["Your password is too short."])) == [IssueKind.UNTRANSLATED]
    assert kinds(check(["Ihr Passwort ist zu kurz."])) == [IssueKind.WRONG_LANGUAGE]
    report = check(["Your password is too short."], ["Votre mot de passe est trop court."])
    assert set(kinds(report)) == {IssueKind.UNTRANSLATED, IssueKind.MISSING}


def test_without_a_language_strings_and_faults_are_checked() -> None:
    """The report says that the language was not."""
    lines = ["Your password is too short.", "Hallo {name}"]
    report = check(lines, language="")
    assert kinds(report) == [IssueKind.PLACEHOLDER]
    assert (report.as_json()["language"], report.as_json()["languageChecked"]) == (None, False)
    report = check(lines, ["Your password is too short.", "Hallo Ada"], language="")
    assert set(kinds(report)) == {IssueKind.PLACEHOLDER, IssueKind.DIFFERENT}
    extra = check(lines, ["Your password is too short."], language="")
    assert set(kinds(extra)) == {IssueKind.PLACEHOLDER, IssueKind.EXTRA}
    assert check(lines).as_json()["languageChecked"] is True


def test_what_is_expected_may_be_in_any_language() -> None:
    """The references know better."""
    assert check(["Your password is too short."], ["Your password is too short."]).issues == ()


def test_allowed_texts_are_neither_foreign_nor_extra() -> None:
    """As words, or as a whole."""
    assert check(["Keep it simple and safe"], None, "fr", "Keep it simple and safe").issues == ()
    assert check(["Acme"], [], "fr", "acme").issues == ()
    assert kinds(check(["Acme"], [], "fr")) == [IssueKind.EXTRA]


def test_numbers_and_single_letters_are_never_extra() -> None:
    """A clock or an icon that looks like a letter needs no reference."""
    assert check(["9:41", "100 %", "X", "OK"], ["OK"]).issues == ()


def test_a_picture_without_text_is_looked_at() -> None:
    """Unless nothing else was expected and something is there."""
    assert kinds(check([])) == [IssueKind.NO_TEXT]
    assert kinds(check([], ["Annuler"])) == [IssueKind.MISSING]
    assert check([]).verdict is Verdict.MANUAL


def test_a_broken_line_is_not_judged_by_its_language() -> None:
    """Mojibake is one fault, not two."""
    broken = "Paramètres de l'été à vérifier".encode().decode("cp1252", "replace")
    assert kinds(check([broken])) == [IssueKind.MOJIBAKE]


def test_text_at_the_edge_is_not_cut_off_where_all_of_it_is_there() -> None:
    """The references say where it ends."""
    page = written.page("Enregistrer tout")
    line = replace(page.lines[0], quad=pages.Box(600, 100, page.width, 120).quad())
    page = replace(page, lines=(line,))
    french = languages.find_language("fr")
    assert kinds(rules_check.check(page, None, french)) == [IssueKind.CUT_OFF]
    assert kinds(rules_check.check(page, ["Enregistrer tout"], french)) == []
    found = kinds(rules_check.check(page, ["Enregistrer tout de suite"], french))
    assert found == [IssueKind.CUT_OFF, IssueKind.TRUNCATED]


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
    page = written.page(
        *((row.drawn or "").replace(screens.UNKNOWN_CHARACTER, "□") for row in rows)
    )
    lines = [
        replace(line, quad=pages.bounding_box(line.quad)._replace(right=page.width).quad())
        if row.overflows
        else line
        for line, row in zip(page.lines, rows, strict=True)
    ]
    places = {row: pages.bounding_box(line.quad) for row, line in zip(rows, lines, strict=True)}
    return replace(page, lines=tuple(lines)), [places.get(row) for row in screen.rows]


def test_planted_faults_are_found_where_nothing_is_misread() -> None:
    """All screens of the benchmark: what is left to go wrong is what a language can be told by."""
    pairs = []
    for screen in screens.make_screens(200, seed=1):
        page, boxes = read(screen)
        report = rules_check.check(page, screen.expected, languages.find_language(screen.language))
        pairs.append(
            (
                run.count_expected_findings(screen),
                run.count_reported_findings(screen, boxes, report),
            )
        )
    scores = run.score(pairs)
    assert scores.keys() >= {
        *Verdict,
        *(kind for kind in IssueKind if kind is not IssueKind.NO_TEXT),
    }
    guessed = {IssueKind.UNTRANSLATED, IssueKind.WRONG_LANGUAGE, run.ERRORS, run.OVERALL, *Verdict}
    for name, score in scores.items():
        least = 0.94 if name in guessed else 1.0
        assert (name, score.precision >= least, score.recall >= least) == (name, True, True), score
