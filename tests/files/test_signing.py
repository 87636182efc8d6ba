"""A signed URL opens one file, for a while."""

from __future__ import annotations

import urllib.parse

import pytest

from pagewarden import errors, settings
from pagewarden.files import signing

KEY = "a key that nobody knows"
PATH = "case/doc/Über & so.pdf"


class Clock:
    """A time that tests can set."""

    seconds = 1_700_000_000.5

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


def _taken_apart(url: str) -> tuple[str, str, str]:
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    assert parts.netloc == "files.example.org"
    path = urllib.parse.unquote(parts.path).removeprefix("/open/")
    return path, query["expires"], query["signature"]


def test_url_opens_its_file_until_it_expires() -> None:
    """The last second counts."""
    clock = Clock()
    signer = signing.Signer("https://files.example.org/open/", KEY, now=clock)

    path, expires, signature = _taken_apart(signer.url(PATH, 60))

    assert path == PATH
    assert signer.verify(path, expires, signature)
    clock.seconds += 59
    assert signer.verify(path, expires, signature)
    clock.seconds += 2
    assert not signer.verify(path, expires, signature)


def test_changed_url_opens_nothing() -> None:
    """Neither another file, nor later, nor with another key."""
    clock = Clock()
    signer = signing.Signer("https://files.example.org/open", KEY, now=clock)
    _, expires, signature = _taken_apart(signer.url(PATH, 60))

    for attempt in [
        ("case/doc/other.pdf", expires, signature),
        (f"../{PATH}", expires, signature),
        (PATH, str(int(expires) + 1), signature),
        (PATH, f"0{expires}", signature),
        (PATH, "", signature),
        (PATH, "٣", signature),
        (PATH, "9" * 400, signature),
        (PATH, expires, ""),
        (PATH, expires, signature.upper()),
        (PATH, expires, "\udcff"),
    ]:
        assert not signer.verify(*attempt)
    other = signing.Signer("https://files.example.org/open", KEY + "!", now=clock)
    assert not other.verify(PATH, expires, signature)


def test_path_with_a_trick_is_not_signed() -> None:
    """Whoever serves it need not look again."""
    with pytest.raises(errors.UnsafePath):
        signing.Signer("https://files.example.org", KEY).url("../secret", 60)


def test_signer_is_made_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of them, or none."""
    assert signing.open_signer(settings.Settings()) is None
    monkeypatch.setenv("PAGEWARDEN_FILES_PUBLIC_URL", "https://files.example.org/open")
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_FILES_SIGNING_KEY"):
        settings.load()
    monkeypatch.setenv("PAGEWARDEN_FILES_SIGNING_KEY", "too short")
    with pytest.raises(errors.SettingsError, match="openssl"):
        settings.load()
    monkeypatch.setenv("PAGEWARDEN_FILES_SIGNING_KEY", "5xyfXx6nNxWDo7dVv8uJ1a2bbkVx0UGM")
    signer = signing.open_signer(settings.load())
    assert signer is not None
    assert signer.verify(*_taken_apart(signer.url(PATH, 60)))
