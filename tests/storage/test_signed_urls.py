"""Signing and verifying temporary URLs."""

from __future__ import annotations

import urllib.parse

import pytest

from pagewarden import errors, settings
from pagewarden.storage import signed_urls

KEY = "a secret signing key"
PATH = "case/doc/Über & so.pdf"


class Clock:
    """A settable clock."""

    seconds = 1_700_000_000.5

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


def _parse(url: str) -> tuple[str, str, str]:
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    assert parts.netloc == "files.example.org"
    path = urllib.parse.unquote(parts.path).removeprefix("/open/")
    return path, query["expires"], query["signature"]


def test_url_is_valid_until_it_expires() -> None:
    """Including the last second."""
    clock = Clock()
    signer = signed_urls.UrlSigner("https://files.example.org/open/", KEY, now=clock)

    path, expires, signature = _parse(signer.make_url(PATH, 60))

    assert path == PATH
    assert signer.verify(path, expires, signature)
    clock.seconds += 59
    assert signer.verify(path, expires, signature)
    clock.seconds += 2
    assert not signer.verify(path, expires, signature)


def test_changed_url_is_invalid() -> None:
    """With another path, time, signature or key."""
    clock = Clock()
    signer = signed_urls.UrlSigner("https://files.example.org/open", KEY, now=clock)
    _, expires, signature = _parse(signer.make_url(PATH, 60))

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
    other = signed_urls.UrlSigner("https://files.example.org/open", KEY + "!", now=clock)
    assert not other.verify(PATH, expires, signature)


def test_unsafe_path_is_not_signed() -> None:
    """The server of the URL need not check it again."""
    with pytest.raises(errors.UnsafePath):
        signed_urls.UrlSigner("https://files.example.org", KEY).make_url("../secret", 60)


def test_signer_needs_url_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without both there is no signer."""
    assert signed_urls.make_store_signer(settings.Settings()) is None
    monkeypatch.setenv("PAGEWARDEN_FILES_PUBLIC_URL", "https://files.example.org/open")
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_FILES_SIGNING_KEY"):
        settings.load()
    monkeypatch.setenv("PAGEWARDEN_FILES_SIGNING_KEY", "too short")
    with pytest.raises(errors.SettingsError, match="openssl"):
        settings.load()
    monkeypatch.setenv("PAGEWARDEN_FILES_SIGNING_KEY", "5xyfXx6nNxWDo7dVv8uJ1a2bbkVx0UGM")
    signer = signed_urls.make_store_signer(settings.load())
    assert signer is not None
    assert signer.verify(*_parse(signer.make_url(PATH, 60)))
