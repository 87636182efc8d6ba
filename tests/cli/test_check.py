"""The command `pagewarden check` as a person types it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer import testing

from pagewarden import cli, errors
from tests.ocr import drawn

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "{}x{} fra".format(*drawn.SIZE)
"""What the fake engine reads on a page that it is told to be French."""


def check(*words: str | Path, language: str | None = "fr") -> testing.Result:
    """Type the command, in this process; without a language where there is none."""
    runner = testing.CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"})
    options = ["--engine", "fake-remote", *(["--language", language] if language else [])]
    return runner.invoke(cli.app, ["check", *options, *map(str, words)])


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A picture that goes well."""
    path = tmp_path / "home.png"
    path.write_bytes(drawn.document("white", kind="PNG"))
    return path


def test_a_picture_with_its_text_passes(picture: Path) -> None:
    """The text file beside it says what should be there; the engine is told the language."""
    picture.with_suffix(".txt").write_text(f"{TEXT}\n")
    result = check(picture)
    assert result.exit_code == 0, result.output
    assert "PASS" in result.stdout
    assert "1 picture: 1 PASS" in result.stderr


def test_a_picture_without_its_text_is_for_a_person(picture: Path) -> None:
    """Exit code 1, and the issues are in the table."""
    picture.with_suffix(".txt").write_text("Enregistrer\n")
    result = check(picture)
    assert result.exit_code == 1
    assert "error: missing: 'Enregistrer' is not in the picture." in result.stdout
    assert "1 picture: 1 MANUAL" in result.stderr


def test_without_a_language_the_language_is_not_checked(
    picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is told none, and the command says so; a setting may name one."""
    result = check(picture, "--json", language=None)
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert (found["languageChecked"], found["extractedText"]) == (False, TEXT.removesuffix(" fra"))
    assert "1 picture: 1 PASS; the language was not checked" in result.stderr
    monkeypatch.setenv("PAGEWARDEN_CHECK_LANGUAGE", "fr")
    (found,) = json.loads(check(picture, "--json", language=None).stdout)
    assert (found["languageChecked"], found["extractedText"]) == (True, TEXT)
    monkeypatch.setenv("PAGEWARDEN_CHECK_LANGUAGE", "tlh")
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_CHECK_LANGUAGE: 'tlh'"):
        raise check(picture, language=None).exception or AssertionError


def test_references_in_one_file_go_first(picture: Path, tmp_path: Path) -> None:
    """Before a text file; a picture they do not have is checked without."""
    picture.with_suffix(".txt").write_text("Enregistrer\n")
    other = tmp_path / "other.png"
    other.write_bytes(picture.read_bytes())
    strings = tmp_path / "references.json"
    strings.write_text(json.dumps({"home.png": [TEXT]}))
    result = check(picture, other, "--references", strings, "--json")
    home, without = json.loads(result.stdout)
    assert (result.exit_code, home["verdict"], home["match"]) == (0, "PASS", True)
    assert home["strings"] == [{"expected": TEXT, "verdict": "match", "found": TEXT}]
    assert (without["strings"], without["match"], without["extractedText"]) == (None, None, TEXT)


def test_what_cannot_be_read_is_in_the_table(picture: Path, tmp_path: Path) -> None:
    """Exit code 1; the others are checked all the same."""
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"")
    refused = tmp_path / "refused.tif"
    refused.write_bytes(drawn.document("refused"))
    result = check(picture, broken, refused, "--json")
    home, *others = json.loads(result.stdout)
    assert (result.exit_code, home["verdict"]) == (1, "PASS")
    assert [other["verdict"] for other in others] == ["UNREADABLE"] * 2
    assert "the file is empty" in others[0]["error"]
    assert "the service will not read this page" in others[1]["error"]


def test_pages_of_one_file_are_checked_one_by_one(tmp_path: Path) -> None:
    """With references it is unclear which page they are of."""
    scan = tmp_path / "scan.tif"
    scan.write_bytes(drawn.document("white", "white"))
    result = check(tmp_path, "--json")
    assert [one["image"] for one in json.loads(result.stdout)] == [
        f"{scan}, page 1",
        f"{scan}, page 2",
    ]
    scan.with_suffix(".txt").write_text(TEXT)
    result = check(tmp_path)
    assert result.exit_code == 1
    assert "has 2 pages, so it is unclear" in result.stdout


def test_allowed_words_are_let_through(picture: Path) -> None:
    """Also several of them; without them the same text is extra."""
    picture.with_suffix(".txt").write_text("\n")
    assert check(picture).exit_code == 1
    result = check(picture, "--allow", "fra", "--allow", "Acme")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.png"], "there is no file none.png"),
        (["-"], "check does not read standard input"),
        (["home.png", "--language", "tlh"], "'tlh' is not a supported language"),
        (["home.png", "--engine", "rapyd"], "unknown engine 'rapyd'"),
        (["home.png", "--profile", "best"], "'best' is not valid"),
        (["home.png", "--references", "none.json"], "cannot read none.json"),
        (["home.png", "--references", "bad.json"], "bad.json: invalid JSON"),
        (["home.png", "--references", "other.csv"], "has no strings for any of the pictures"),
    ],
)
def test_invalid_arguments_are_refused(
    picture: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """Exit code 2, what is wrong, and nothing is done."""
    monkeypatch.chdir(picture.parent)
    (picture.parent / "bad.json").write_text("{")
    (picture.parent / "other.csv").write_text("image,text\nelse.png,Oui\n")
    result = check(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
