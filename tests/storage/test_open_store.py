"""Opening the store that PAGEWARDEN_FILES names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, settings, storage
from pagewarden.storage import dropbox, local_disk, s3
from tests.storage import stores

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start without settings, in a folder without a .env file."""
    for name in os.environ:
        if name.startswith((settings.PREFIX, "DROPBOX_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGEWARDEN_HOME", str(tmp_path / "home"))


def _open(monkeypatch: pytest.MonkeyPatch, **values: str) -> storage.FileStore:
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return storage.open_store(settings.load())


@pytest.mark.parametrize(
    ("address", "folder"),
    [
        ("", "home/files"),
        ("here", "here"),
        ("~/there", "user/there"),
        ("file://{}/a%20b", "a b"),
        ("file://localhost{}/c", "c"),
    ],
)
async def test_folder_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, folder: str
) -> None:
    """By default the folder is in PAGEWARDEN_HOME."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    values = {"PAGEWARDEN_FILES": address.format(tmp_path)} if address else {}

    async with _open(monkeypatch, **values) as store:
        assert isinstance(store, local_disk.LocalFileStore)
        await store.write("a", stores.chunks_of(b"x"))

    assert (tmp_path / folder / "a").read_bytes() == b"x"


async def test_dropbox_settings_have_the_names_of_dropbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder, the store is the whole Dropbox."""
    for address in ("dropbox:///", "dropbox:///Team/page%20warden"):
        store = _open(
            monkeypatch,
            PAGEWARDEN_FILES=address,
            DROPBOX_APP_KEY="key",
            DROPBOX_APP_SECRET="secret",
            DROPBOX_REFRESH_TOKEN="token",
        )
        assert isinstance(store, dropbox.DropboxFileStore)
        async with store:
            pass


async def test_bucket_settings_have_the_names_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed URLs have the endpoint, the key and the region."""
    store = _open(
        monkeypatch,
        PAGEWARDEN_FILES="s3://bucket/some/prefix/",
        AWS_ENDPOINT_URL_S3="https://project.storage.example.org/storage/v1/s3",
        AWS_REGION="eu-central-1",
        AWS_ACCESS_KEY_ID="of-the-machine",
        AWS_SECRET_ACCESS_KEY="secret",
    )

    assert isinstance(store, s3.S3FileStore)
    url = await store.create_signed_url("a/b", 60) or ""
    assert url.startswith(
        "https://project.storage.example.org/storage/v1/s3/bucket/some/prefix/a/b?"
    )
    assert "of-the-machine%2F" in url
    assert "eu-central-1" in url


@pytest.mark.parametrize(
    "address",
    [
        "ftp://example.org/x",
        "dropbox://folder",
        "s3:///prefix",
        "s3://",
        "file://host/x",
        "file://",
    ],
)
def test_unknown_address_is_refused_with_the_valid_ones(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """The message shows their form."""
    with pytest.raises(errors.SettingsError, match=r"dropbox:///folder.* s3://bucket"):
        _open(monkeypatch, PAGEWARDEN_FILES=address)


@pytest.mark.parametrize("address", ["s3://bucket/../x", "dropbox:///a//b"])
def test_unsafe_prefix_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """It could mean another folder."""
    names = {"DROPBOX_APP_KEY": "key", "DROPBOX_REFRESH_TOKEN": "token"}

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_FILES"):
        _open(monkeypatch, PAGEWARDEN_FILES=address, **names)


def test_dropbox_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing."""
    with pytest.raises(errors.SettingsError, match="DROPBOX_REFRESH_TOKEN"):
        _open(monkeypatch, PAGEWARDEN_FILES="dropbox:///x", DROPBOX_APP_KEY="key")


def test_access_key_without_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the missing setting."""
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_S3_SECRET_ACCESS_KEY"):
        _open(monkeypatch, PAGEWARDEN_FILES="s3://bucket", PAGEWARDEN_S3_ACCESS_KEY_ID="id")
