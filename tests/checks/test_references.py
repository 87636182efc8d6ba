"""What should be on pictures, as people write it down."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.checks import references

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=9)


def test_a_text_file_has_a_string_on_each_line() -> None:
    """Blank lines, spaces at the ends and a byte order mark are nothing."""
    data = "\ufeffEnregistrer\r\n\n  Annuler  \n".encode()
    assert references.parse_lines("home.txt", data) == ["Enregistrer", "Annuler"]


def test_json_has_a_list_or_a_text_for_each_picture() -> None:
    """Pictures are found by path, by name, and without their suffix."""
    data = {"a/home.png": ["Oui", " "], "menu.png": "Non\nPlus tard", "about": []}
    found = references.parse_file("references.json", json.dumps(data).encode())
    assert found.find("a/home.png") == ["Oui"]
    assert found.find("deep/menu.png") == ["Non", "Plus tard"]
    assert found.find("about.jpg") == []
    assert found.find("home.png") is None


def test_csv_has_a_row_for_each_string() -> None:
    """In any order, with quotes, line ends in a string, and columns nobody asked for."""
    data = 'text,image,note\r\n"Oui, merci",a.png,x\r\nNon,b.png,\r\n"deux\nlignes",a.png,\r\n'
    found = references.parse_file("strings.CSV", data.encode())
    assert found.find("a.png") == ["Oui, merci", "deux\nlignes"]
    assert found.find("b.png") == ["Non"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("r.json", b"{", "r.json: invalid JSON"),
        ("r.json", b"[" * 100_000, "r.json: invalid JSON"),
        ("r.json", b"[]", 'expected an object such as {"picture.png": ["a string"'),
        ("r.json", b"{}", "the file lists no pictures"),
        ("r.json", b'{"a.png": 3}', "the value of 'a.png' must be a string or a list"),
        ("r.json", b'{"a.png": ["x", null]}', "the value of 'a.png' must be"),
        ("r.csv", b"", "the first row must have the columns image and text"),
        ("r.csv", b"picture,text\na,b\n", "the first row must have the columns image and text"),
        ("r.csv", b"image,text\n,b\n", "r.csv, line 2: the picture has no name"),
        ("r.csv", b'image,text\na,"b\n', "r.csv, after line 1: unexpected end of data"),
        ("r.csv", b"image,text\n", "the file lists no pictures"),
        ("r.xlsx", b"PK", "references must be .json or .csv files"),
        ("r.csv", "image,text\na,é".encode("latin-1"), "byte 13 is not valid UTF-8"),
        ("r.json", b" " * (references.MAX_BYTES + 1), "the file is larger than 10,000,000 bytes"),
        ("r.json", json.dumps({"a": ["x"] * 1001}).encode(), "more than 1,000 strings"),
        ("r.json", json.dumps({"a": "x" * 5001}).encode(), "more than 5,000 characters"),
    ],
)
def test_what_cannot_be_understood_is_named(name: str, data: bytes, said: str) -> None:
    """With the file, the place and what to do."""
    with pytest.raises(references.InvalidReferences) as caught:
        references.parse_file(name, data)
    assert said in str(caught.value)
    assert str(caught.value).startswith(name)


@given(st.binary(max_size=60), st.sampled_from(["r.json", "r.csv"]))
def test_any_bytes_are_references_or_a_message(data: bytes, name: str) -> None:
    """Nothing else comes out of it."""
    with contextlib.suppress(references.InvalidReferences):
        assert references.parse_file(name, data).names


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3), min_size=1, max_size=4))
def test_json_and_csv_say_the_same(strings: dict[str, list[str]]) -> None:
    """The same strings are the same, however they are written down."""
    rows = [f"{name},{text}" for name, texts in strings.items() for text in [*texts, ""]]
    table = references.parse_file("r.csv", "\n".join(["image,text", *rows]).encode())
    listed = references.parse_file("r.json", json.dumps(strings).encode())
    assert {name: table.find(name) for name in strings} == {
        name: listed.find(name) for name in strings
    }
