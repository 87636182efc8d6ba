"""Where bytes live: a folder, a Dropbox, or a bucket that speaks S3; see docs/files.md."""

from __future__ import annotations

from pagewarden.files.interface import MAX_URL_SECONDS, Entry, FileStore, Stored
from pagewarden.files.opening import open_store
from pagewarden.files.paths import check_path, is_path, safe_name
from pagewarden.files.signing import Signer, open_signer

__all__ = [
    "MAX_URL_SECONDS",
    "Entry",
    "FileStore",
    "Signer",
    "Stored",
    "check_path",
    "is_path",
    "open_signer",
    "open_store",
    "safe_name",
]
