"""File stores: a folder, a Dropbox, or an S3-compatible bucket; see docs/how-to/files.md.

`base` has the FileStore protocol, `paths` the rules for paths, `scratch` and `file_cache` local
files. `open_store` opens the store that the settings name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pagewarden import errors
from pagewarden.storage import local_disk, paths
from pagewarden.storage.base import MAX_URL_SECONDS, Entry, FileStore, WrittenFile, read_head
from pagewarden.storage.paths import check_path, is_path, make_safe_name
from pagewarden.storage.signed_urls import UrlSigner, make_store_signer

if TYPE_CHECKING:
    from pagewarden.settings import Settings
    from pagewarden.storage import dropbox, s3

__all__ = [
    "MAX_URL_SECONDS",
    "Entry",
    "FileStore",
    "UrlSigner",
    "WrittenFile",
    "check_path",
    "is_path",
    "make_safe_name",
    "make_store_signer",
    "open_store",
    "read_head",
]

_ADVICE = (
    "set PAGEWARDEN_FILES to a folder, to dropbox:///folder (with three slashes) or to "
    "s3://bucket/prefix"
)


def open_store(settings: Settings) -> FileStore:
    """Return the store that PAGEWARDEN_FILES names; nothing is sent or written yet."""
    address = settings.files or ""
    parts = urlsplit(address)
    if not address:
        return _open_local_store(settings.home / "files", settings)
    if "://" not in address:
        return _open_local_store(Path(address), settings)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return _open_local_store(Path(unquote(parts.path)), settings)
    if parts.scheme == "dropbox" and not parts.netloc:
        return _open_dropbox_store(parts, settings)
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3_store(parts, settings)
    raise errors.SettingsError(f"{address!r} is not a file store; {_ADVICE}")


def _open_local_store(folder: Path, settings: Settings) -> local_disk.LocalFileStore:
    return local_disk.LocalFileStore(folder.expanduser().absolute(), make_store_signer(settings))


def _open_dropbox_store(parts: SplitResult, settings: Settings) -> dropbox.DropboxFileStore:
    from pagewarden.storage import dropbox  # noqa: PLC0415  # few installations use it

    if not (settings.dropbox_app_key and settings.dropbox_refresh_token):
        raise errors.SettingsError(
            "a Dropbox store needs DROPBOX_APP_KEY and DROPBOX_REFRESH_TOKEN; see "
            "docs/how-to/files.md"
        )
    secret = settings.dropbox_app_secret
    credentials = dropbox.Credentials(
        settings.dropbox_app_key,
        secret.get_secret_value() if secret else None,
        settings.dropbox_refresh_token.get_secret_value(),
    )
    hosts = str(settings.dropbox_api_url), str(settings.dropbox_content_url)
    return dropbox.DropboxFileStore(dropbox.DropboxApi(*hosts, credentials), _parse_prefix(parts))


def _open_s3_store(parts: SplitResult, settings: Settings) -> s3.S3FileStore:
    from pagewarden.storage import s3  # noqa: PLC0415  # few installations use it

    secret = settings.s3_secret_access_key
    return s3.S3FileStore(
        s3.BucketConfig(
            parts.netloc,
            prefix=_parse_prefix(parts) or None,
            endpoint=str(settings.s3_endpoint) if settings.s3_endpoint else None,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=secret.get_secret_value() if secret else None,
        )
    )


def _parse_prefix(parts: SplitResult) -> str:
    prefix = unquote(parts.path).strip("/")
    try:
        paths.check_prefix(prefix)
    except errors.UnsafePath as exc:
        raise errors.SettingsError(f"PAGEWARDEN_FILES: {exc}") from exc
    return prefix
