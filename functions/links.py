"""Links that open a file or the picture of a page for a short while, for people in a browser."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions import files, pictures
from pagewarden.files import local

if TYPE_CHECKING:
    from functions import services

_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links to what is in the store; whoever asks has seen to it that somebody may."""

    used: services.Services

    def picture(self, path: str, number: int) -> str:
        """Lead to the picture of a page of this file."""
        return pictures.make_signer(self.used.keys).url(f"{path}/{number}", _SECONDS)

    async def file(self, path: str) -> str:
        """Lead to this file: where it is hosted, or else at our own address."""
        hosted = None
        if not isinstance(self.used.store, local.LocalFiles):
            hosted = await self.used.store.signed_url(path, _SECONDS)
        # What a folder calls its public address may be known to our own services only.
        return hosted or files.make_signer(self.used.keys).url(path, _SECONDS)

    async def beginning(self, path: str, size: int) -> bytes:
        """Give the first bytes of this file."""
        found = b""
        async with contextlib.aclosing(self.used.store.read(path)) as chunks:
            async for chunk in chunks:
                found += chunk[:size]
                if len(found) >= size:
                    break
        return found[:size]
