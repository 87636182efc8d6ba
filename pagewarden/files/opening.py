"""Which store the settings ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pagewarden import errors
from pagewarden.files import local, paths, signing

if TYPE_CHECKING:
    from pagewarden import settings as settings_module
    from pagewarden.files import dropbox, interface, s3

_ADVICE = (
    "set PAGEWARDEN_FILES to a folder, to dropbox:///folder (with three strokes) or to "
    "s3://bucket/prefix"
)


def open_store(settings: settings_module.Settings) -> interface.FileStore:
    """Make the store that the settings ask for; nothing is sent or written yet."""
    place = settings.files or ""
    parts = urlsplit(place)
    if not place:
        return _open_folder(settings.home / "files", settings)
    if "://" not in place:
        return _open_folder(Path(place), settings)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return _open_folder(Path(unquote(parts.path)), settings)
    if parts.scheme == "dropbox" and not parts.netloc:
        return _open_dropbox(parts, settings)
    if parts.scheme == "s3" and parts.netloc:
        return _open_bucket(parts, settings)
    raise errors.SettingsError(f"{place!r} is no place for files; {_ADVICE}")


def _open_folder(folder: Path, settings: settings_module.Settings) -> local.LocalFiles:
    return local.LocalFiles(folder.expanduser().absolute(), signing.open_signer(settings))


def _open_dropbox(parts: SplitResult, settings: settings_module.Settings) -> dropbox.DropboxFiles:
    from pagewarden.files import dropbox  # noqa: PLC0415  # most have another store

    if not (settings.dropbox_app_key and settings.dropbox_refresh_token):
        raise errors.SettingsError(
            "a Dropbox needs DROPBOX_APP_KEY and DROPBOX_REFRESH_TOKEN, see docs/files.md"
        )
    secret = settings.dropbox_app_secret
    credentials = dropbox.Credentials(
        settings.dropbox_app_key,
        secret.get_secret_value() if secret else None,
        settings.dropbox_refresh_token.get_secret_value(),
    )
    hosts = str(settings.dropbox_api_url), str(settings.dropbox_content_url)
    return dropbox.DropboxFiles(dropbox.Api(*hosts, credentials), _folder_of(parts))


def _open_bucket(parts: SplitResult, settings: settings_module.Settings) -> s3.S3Files:
    from pagewarden.files import s3  # noqa: PLC0415  # most have another store

    secret = settings.s3_secret_access_key
    return s3.S3Files(
        s3.Bucket(
            parts.netloc,
            prefix=_folder_of(parts) or None,
            endpoint=str(settings.s3_endpoint) if settings.s3_endpoint else None,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=secret.get_secret_value() if secret else None,
        )
    )


def _folder_of(parts: SplitResult) -> str:
    folder = unquote(parts.path).strip("/")
    try:
        paths.check_prefix(folder)
    except errors.UnsafePath as exc:
        raise errors.SettingsError(f"PAGEWARDEN_FILES: {exc}") from exc
    return folder
