"""The settings say where files are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, files, settings
from pagewarden.files import dropbox, local, s3
from tests.files import places

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start without any setting, in a folder without a .env file."""
    for name in os.environ:
        if name.startswith((settings.PREFIX, "DROPBOX_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGEWARDEN_HOME", str(tmp_path / "home"))


def _open(monkeypatch: pytest.MonkeyPatch, **values: str) -> files.FileStore:
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return files.open_store(settings.load())


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("", "home/files"),
        ("here", "here"),
        ("~/there", "user/there"),
        ("file://{}/a%20b", "a b"),
        ("file://localhost{}/c", "c"),
    ],
)
async def test_folder_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, folder: str
) -> None:
    """Without a setting it is in the home of the embedded server."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    values = {"PAGEWARDEN_FILES": place.format(tmp_path)} if place else {}

    async with _open(monkeypatch, **values) as store:
        assert isinstance(store, local.LocalFiles)
        await store.write("a", places.of(b"x"))

    assert (tmp_path / folder / "a").read_bytes() == b"x"


async def test_dropbox_is_opened_with_the_names_of_dropbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder, it is all of it."""
    for place in ("dropbox:///", "dropbox:///Team/page%20warden"):
        store = _open(
            monkeypatch,
            PAGEWARDEN_FILES=place,
            DROPBOX_APP_KEY="key",
            DROPBOX_APP_SECRET="secret",
            DROPBOX_REFRESH_TOKEN="token",
        )
        assert isinstance(store, dropbox.DropboxFiles)
        async with store:
            pass


async def test_bucket_is_opened_with_the_names_of_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed URLs show where it is."""
    store = _open(
        monkeypatch,
        PAGEWARDEN_FILES="s3://bucket/some/prefix/",
        AWS_ENDPOINT_URL_S3="https://project.storage.example.org/storage/v1/s3",
        AWS_REGION="eu-central-1",
        AWS_ACCESS_KEY_ID="of-the-machine",
        AWS_SECRET_ACCESS_KEY="secret",
    )

    assert isinstance(store, s3.S3Files)
    url = await store.signed_url("a/b", 60) or ""
    assert url.startswith(
        "https://project.storage.example.org/storage/v1/s3/bucket/some/prefix/a/b?"
    )
    assert "of-the-machine%2F" in url
    assert "eu-central-1" in url


@pytest.mark.parametrize(
    "place",
    [
        "ftp://example.org/x",
        "dropbox://folder",
        "s3:///prefix",
        "s3://",
        "file://host/x",
        "file://",
    ],
)
def test_unknown_place_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The message shows how to write them."""
    with pytest.raises(errors.SettingsError, match=r"dropbox:///folder.* s3://bucket"):
        _open(monkeypatch, PAGEWARDEN_FILES=place)


@pytest.mark.parametrize("place", ["s3://bucket/../x", "dropbox:///a//b"])
def test_folder_with_a_trick_is_refused(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """It would not lead where it seems to."""
    names = {"DROPBOX_APP_KEY": "key", "DROPBOX_REFRESH_TOKEN": "token"}

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_FILES"):
        _open(monkeypatch, PAGEWARDEN_FILES=place, **names)


def test_dropbox_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing."""
    with pytest.raises(errors.SettingsError, match="DROPBOX_REFRESH_TOKEN"):
        _open(monkeypatch, PAGEWARDEN_FILES="dropbox:///x", DROPBOX_APP_KEY="key")


def test_half_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the other half."""
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_S3_SECRET_ACCESS_KEY"):
        _open(monkeypatch, PAGEWARDEN_FILES="s3://bucket", PAGEWARDEN_S3_ACCESS_KEY_ID="id")
