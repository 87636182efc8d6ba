"""Safe file names and valid paths."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors, storage
from pagewarden.storage import paths

# Special characters, more often than in random text.
TRICKY = st.text(
    st.one_of(
        st.sampled_from('./\\~: \0\n\r\t"*?<>|%=_-aé\u0301\u200d\u202e\ud800\u2028\ufeff'),
        st.characters(),
    ),
    max_size=400,
)
NAMES = st.one_of(
    TRICKY, st.sampled_from(["CON", "con.txt", "Com¹", "..", "desktop.ini", "~$a.doc"])
)


@given(NAMES)
def test_safe_name_is_a_valid_path(name: str) -> None:
    """Any name becomes a path with one part."""
    safe = storage.make_safe_name(name)

    assert storage.check_path(safe) == (safe,)
    assert storage.make_safe_name(safe) == safe


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_valid_path_stays_below_its_root(names: list[str]) -> None:
    """No part has a special meaning on any system."""
    path = "/".join(names)
    if not storage.is_path(path):
        return
    assert "/".join(storage.check_path(path)) == path
    for part in path.split("/"):
        assert part not in {"", ".", ".."}
        assert part.isprintable() or {"\u200c", "\u200d", "\xa0"} & set(part) or _has_space(part)
        assert not set(part) & set('\\:*?"<>|\0')
        assert len(part.encode()) <= 255
        assert part == unicodedata.normalize("NFC", part) == part.strip()


def _has_space(part: str) -> bool:
    """Return whether there is an unusual space or an unassigned character."""
    return any(unicodedata.category(char) in {"Zs", "Cn", "Co"} for char in part)


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("scan.pdf", "scan.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\fakepath\\Rechnung März.PDF", "Rechnung März.PDF"),
        ("folder/", "folder"),
        (".htaccess", "htaccess"),
        ("a:b*c?.pdf", "a_b_c_.pdf"),
        ("gpj.\u202efdp", "gpj.fdp"),
        ("cafe\u0301.pdf", "caf\u00e9.pdf"),
        ("line\nbreak\0.pdf", "linebreak.pdf"),
        ("trailing. . ", "trailing"),
        ("NUL", "_NUL"),
        ("com3.tar.gz", "_com3.tar.gz"),
        ("Thumbs.db", "_Thumbs.db"),
        ("~$report.docx", "$report.docx"),
        ("क्\u200dष.jpg", "क्\u200dष.jpg"),
        ("\udc80\udcff.pdf", "pdf"),
        ("", "file"),
        ("...", "file"),
        (" / \\ ", "file"),
    ],
)
def test_safe_name_is_similar_to_the_given_one(given_name: str, safe: str) -> None:
    """Only invalid parts change."""
    assert storage.make_safe_name(given_name) == safe


@pytest.mark.parametrize(
    ("name", "suffix"), [("é" * 300 + ".pdf", "é.pdf"), ("x" * 300, "x"), ("x." + "y" * 300, "y")]
)
def test_long_name_is_shortened_before_its_suffix(name: str, suffix: str) -> None:
    """Between characters, to the limit of file systems."""
    safe = storage.make_safe_name(name)

    assert safe.endswith(suffix)
    assert 253 <= len(safe.encode()) <= 255


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/./b",
        ".hidden",
        "a\\b",
        "a\0b",
        "a\nb",
        "a\x7f",
        "\ud800",
        "a\u202eb",
        "C:/x",
        "con",
        "a/LPT1.txt",
        "a /b",
        "a./b",
        "~a",
        "cafe\u0301",
        "x" * 256,
        "é" * 128,
        "/".join(["x" * 200] * 6),
    ],
)
def test_unsafe_path_is_refused(path: str) -> None:
    """The message gives the reason."""
    with pytest.raises(errors.UnsafePath, match=r"path"):
        storage.check_path(path)
    assert not storage.is_path(path)


def test_prefix_may_be_empty_or_end_with_a_slash() -> None:
    """The empty prefix is the whole store."""
    assert paths.check_prefix("") == ()
    assert paths.check_prefix("a/b/") == paths.check_prefix("a/b") == ("a", "b")
