"""Sign and verify temporary URLs, for stores and routes that have none of their own."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from pagewarden.storage import paths
from pagewarden.storage.base import check_url_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.settings import Settings
    from pagewarden.storage.base import FileStore

FILES_PREFIX = "/files/v1"
PAGE_IMAGES_PREFIX = "/pictures/v1"

_PURPOSE = "pagewarden file"
_PAGE_IMAGE_PURPOSE = "pagewarden picture"
_LINK_SECONDS = 300


class UrlSigner:
    """Signs and verifies URLs below `base`; signatures for another purpose are invalid."""

    def __init__(
        self,
        base: str,
        key: str,
        *,
        purpose: str = _PURPOSE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._base = base.rstrip("/")
        self._key = key.encode()
        self._purpose = purpose
        self._now = now

    def make_url(self, path: str, seconds: int) -> str:
        """Return the URL of a path, with the parameters `expires` (Unix time) and `signature`."""
        paths.check_path(path)
        check_url_seconds(seconds)
        expires = str(int(self._now()) + seconds)
        query = urlencode({"expires": expires, "signature": self._sign(path, expires)})
        return f"{self._base}/{quote(path)}?{query}"

    def verify(self, path: str, expires: str, signature: str) -> bool:
        """Return whether the signature allows access to this (decoded) path now."""
        if not (paths.is_path(path) and re.fullmatch(r"[0-9]{1,12}", expires)):
            return False
        expected = self._sign(path, expires).encode()
        is_genuine = hmac.compare_digest(expected, signature.encode(errors="replace"))
        return is_genuine and self._now() <= int(expires)

    def _sign(self, path: str, expires: str) -> str:
        message = f"{self._purpose}\n{path}\n{expires}".encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def make_store_signer(settings: Settings) -> UrlSigner | None:
    """Return the signer for files of a folder, if the settings have a public URL and a key."""
    if settings.files_public_url is None or settings.files_signing_key is None:
        return None
    return UrlSigner(str(settings.files_public_url), settings.files_signing_key.get_secret_value())


def make_file_signer(secret_key: str) -> UrlSigner:
    """Return the signer of links to files for users; `make_store_signer` is for services."""
    return UrlSigner(FILES_PREFIX, secret_key)


def make_page_image_signer(secret_key: str) -> UrlSigner:
    """Return the signer of links to page images."""
    return UrlSigner(PAGE_IMAGES_PREFIX, secret_key, purpose=_PAGE_IMAGE_PURPOSE)


@dataclass(frozen=True, slots=True)
class LinkFactory:
    """Makes temporary links to files and page images; the caller checks permissions."""

    store: FileStore
    secret_key: str

    async def make_file_link(self, path: str) -> str:
        """Return a link to a file: the store's if its URLs are public, else this server's."""
        # The public URL of a folder may be reachable by our own services only.
        if self.store.has_public_urls and (
            url := await self.store.create_signed_url(path, _LINK_SECONDS)
        ):
            return url
        return make_file_signer(self.secret_key).make_url(path, _LINK_SECONDS)

    def make_page_image_link(self, path: str, number: int) -> str:
        """Return a link to the image of a page of a file."""
        return make_page_image_signer(self.secret_key).make_url(f"{path}/{number}", _LINK_SECONDS)
