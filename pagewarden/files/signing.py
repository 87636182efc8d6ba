"""URLs that open one file for a while, for stores which have none of their own."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from pagewarden.files import interface, paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden import settings as settings_module

_PURPOSE = "pagewarden file"


class Signer:
    """Sign and verify; base is where somebody serves what verify lets through.

    No signature that was made for another purpose passes.
    """

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

    def url(self, path: str, seconds: int) -> str:
        """Make a URL: the path below base, with `expires` (Unix time) and `signature` after it."""
        paths.check_path(path)
        interface.check_url_seconds(seconds)
        expires = str(int(self._now()) + seconds)
        query = urlencode({"expires": expires, "signature": self._signature(path, expires)})
        return f"{self._base}/{quote(path)}?{query}"

    def verify(self, path: str, expires: str, signature: str) -> bool:
        """Tell whether this path (decoded) may be handed out now."""
        if not (paths.is_path(path) and re.fullmatch(r"[0-9]{1,12}", expires)):
            return False
        given = signature.encode(errors="replace")
        genuine = hmac.compare_digest(self._signature(path, expires).encode(), given)
        return genuine and self._now() <= int(expires)

    def _signature(self, path: str, expires: str) -> str:
        message = f"{self._purpose}\n{path}\n{expires}".encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def open_signer(settings: settings_module.Settings) -> Signer | None:
    """Make the signer that the settings ask for."""
    if settings.files_public_url is None or settings.files_signing_key is None:
        return None
    return Signer(str(settings.files_public_url), settings.files_signing_key.get_secret_value())
