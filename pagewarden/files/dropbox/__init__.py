"""Files in a Dropbox, by its API v2."""

from __future__ import annotations

from pagewarden.files.dropbox.access import Credentials
from pagewarden.files.dropbox.api import Api
from pagewarden.files.dropbox.store import DropboxFiles

__all__ = ["Api", "Credentials", "DropboxFiles"]
