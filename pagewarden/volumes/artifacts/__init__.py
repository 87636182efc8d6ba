"""Artifacts of volumes: buckets, Parquet files, and their publication.

This module opens a bucket by its address, and has the default input and output addresses.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pagewarden import errors
from pagewarden.storage import paths
from pagewarden.volumes.artifacts import folder
from pagewarden.volumes.artifacts.base import Bucket, Entry

if TYPE_CHECKING:
    from pagewarden import settings as settings_module
    from pagewarden.settings import Settings
    from pagewarden.volumes.artifacts import base
    from pagewarden.volumes.artifacts.s3 import S3Bucket


def open_bucket(address: str, settings: settings_module.Settings) -> base.Bucket:
    """Open the bucket of an address, a folder or `s3://bucket/prefix`; this sends nothing."""
    parts = urlsplit(address)
    if address and "://" not in address:
        return folder.FolderBucket(Path(address).expanduser().absolute())
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts, settings)
    raise errors.SettingsError(f"{address!r} is not a bucket; use a folder, or s3://bucket/prefix")


def _open_s3(parts: SplitResult, settings: settings_module.Settings) -> S3Bucket:
    # Most installations use folders only, and the library loads slowly.
    from pagewarden.storage import s3  # noqa: PLC0415
    from pagewarden.volumes.artifacts.s3 import S3Bucket  # noqa: PLC0415

    secret = settings.s3_secret_access_key
    return S3Bucket(
        s3.BucketConfig(
            parts.netloc,
            prefix=_parse_prefix(parts),
            endpoint=str(settings.s3_endpoint) if settings.s3_endpoint else None,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=secret.get_secret_value() if secret else None,
        )
    )


def _parse_prefix(parts: SplitResult) -> str | None:
    prefix = unquote(parts.path).strip("/")
    try:
        paths.check_prefix(prefix)
    except errors.UnsafePath as exc:
        raise errors.SettingsError(f"s3://{parts.netloc}: {exc}") from exc
    return prefix or None


__all__ = ["Bucket", "Entry", "open_bucket"]


def get_input_address(settings: Settings, override: str | None = None) -> str:
    """Return the address of the bucket of page images, by default that of the settings."""
    return override or settings.volume_input or str(settings.home / "volumes" / "input")


def get_output_address(settings: Settings, override: str | None = None) -> str:
    """Return the address of the bucket of artifacts, by default that of the settings."""
    return override or settings.volume_output or str(settings.home / "volumes" / "output")
