"""Which bucket an address means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pagewarden import errors
from pagewarden.files import paths
from pagewarden.volumes.artifacts import folder

if TYPE_CHECKING:
    from pagewarden import settings as settings_module
    from pagewarden.volumes.artifacts import interface, s3


def open_bucket(address: str, settings: settings_module.Settings) -> interface.Bucket:
    """Make the bucket of an address, a folder or `s3://bucket/prefix`; nothing is sent yet."""
    parts = urlsplit(address)
    if address and "://" not in address:
        return folder.Folder(Path(address).expanduser().absolute())
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts, settings)
    raise errors.SettingsError(f"{address!r} is no bucket; give a folder, or s3://bucket/prefix")


def _open_s3(parts: SplitResult, settings: settings_module.Settings) -> s3.S3Bucket:
    # Most have folders only, and the library takes its time to load.
    from pagewarden.files import s3 as s3_files  # noqa: PLC0415
    from pagewarden.volumes.artifacts import s3  # noqa: PLC0415

    secret = settings.s3_secret_access_key
    return s3.S3Bucket(
        s3_files.Bucket(
            parts.netloc,
            prefix=_prefix(parts),
            endpoint=str(settings.s3_endpoint) if settings.s3_endpoint else None,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=secret.get_secret_value() if secret else None,
        )
    )


def _prefix(parts: SplitResult) -> str | None:
    prefix = unquote(parts.path).strip("/")
    try:
        paths.check_prefix(prefix)
    except errors.UnsafePath as exc:
        raise errors.SettingsError(f"s3://{parts.netloc}: {exc}") from exc
    return prefix or None
