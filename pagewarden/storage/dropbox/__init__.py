"""Store of files in a Dropbox, through the Dropbox API v2."""

from __future__ import annotations

from pagewarden.storage.dropbox.api import Credentials, DropboxApi
from pagewarden.storage.dropbox.store import DropboxFileStore

__all__ = ["Credentials", "DropboxApi", "DropboxFileStore"]
