"""The language of short lines, and when it is better to say nothing."""

from __future__ import annotations

import pytest

from pagewarden.checks.rules import languages


def foreign(text: str, expected: str, *allowed: str) -> str | None:
    """Name the language of a text, if it is certainly another one."""
    found = languages.find_foreign_language(text, languages.find_language(expected), allowed)
    return found.code if found else None


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("Save changes before leaving", "fr", "en"),
        ("Your password is too short.", "de", "en"),
        ("Enregistrer les modifications", "en", "fr"),
        ("Enregistrer les modifications", "de", "fr"),
        ("Änderungen speichern", "fr", "de"),
        ("Settings", "el", "en"),
        ("Save changes", "ru", "en"),
        ("Save changes", "ja", "en"),
        ("Save changes", "ar", "en"),
        ("Сохранить изменения", "en", "ru"),
        ("Αποθήκευση αλλαγών", "en", "el"),
        ("שמור שינויים", "en", "he"),
        ("حفظ التغييرات", "en", "ar"),
        ("設定を保存する", "en", "ja"),
        ("変更を保存しますか", "zh", "ja"),
        ("변경 사항 저장", "ja", "ko"),
        ("保存更改", "en", "zh"),
    ],
)
def test_a_line_in_another_language(text: str, expected: str, found: str) -> None:
    """It is named, across scripts and within one."""
    assert foreign(text, expected) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Enregistrer les modifications", "fr"),
        ("Votre mot de passe est trop court.", "fr"),
        ("Ihr Passwort ist zu kurz.", "de"),
        ("Сохранить изменения", "ru"),
        ("حفظ التغييرات", "ar"),
        ("ذخیره تغییرات", "fa"),
        ("שמור שינויים", "he"),
        ("設定", "ja"),
        ("保存更改", "zh"),
        ("บันทึกการเปลี่ยนแปลง", "th"),
        ("변경 사항 저장", "ko"),
        ("परिवर्तन सहेजें", "hi"),
    ],
)
def test_a_line_in_the_right_language(text: str, expected: str) -> None:
    """Nothing is said about it."""
    assert foreign(text, expected) is None


@pytest.mark.parametrize(
    "text",
    ["", "9:41", "12,50 €", "OK", "Wi-Fi", "PDF", "YouTube", "www.example.com", "a@example.com",
     "v2.3.1", "Google", "iPhone 15", "C:\\Temp", "{name}", "…"],
)  # fmt: skip
@pytest.mark.parametrize("expected", ["fr", "ru", "ja", "ar"])
def test_what_has_no_language_is_left_alone(text: str, expected: str) -> None:
    """Numbers, addresses, brands and short codes may stand anywhere."""
    assert foreign(text, expected) is None


def test_allowed_words_are_left_alone() -> None:
    """Whatever their case."""
    assert foreign("Acme Notebook", "ru") == "en"
    assert foreign("ACME Notebook", "ru", "acme", "notebook") is None


def test_languages_have_regions_and_old_names() -> None:
    """A region does not matter, an old code is understood, and another one is refused."""
    assert (
        languages.find_language("pt-BR")
        is languages.find_language("PT_br")
        is languages.LANGUAGES["pt"]
    )
    assert languages.find_language("no").code == "nb"
    with pytest.raises(languages.UnsupportedLanguage, match=r"'tlh' is not .* choose from ar"):
        languages.find_language("tlh")


def test_every_language_is_one_that_lingua_knows() -> None:
    """So that none of them fails when it is first asked for."""
    import lingua  # noqa: PLC0415  # as the module does it

    for code in languages.LANGUAGES:
        iso = lingua.IsoCode639_1.from_str(code.upper())
        assert lingua.Language.from_iso_code_639_1(iso).name
