"""Pictures of pages, for whoever has a signed URL; drawn in the sandbox, and kept for a while."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import APIRouter, Depends, Query, Request, Response

from functions import kept
from pagewarden import errors, keys
from pagewarden.files import scratch, signing
from pagewarden.reading import picturing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from functions import services
    from pagewarden import concurrency
    from pagewarden.files.interface import FileStore
    from pagewarden.reading import reader

PREFIX = "/pictures/v1"

# Who goes through a document page by page has its file at hand, and the way back is short.
_ORIGINALS_BYTES = 512_000_000
_PICTURES_BYTES = 128_000_000
# What is erased is soon gone from here as well.
_SECONDS = 600.0

router = APIRouter(prefix=PREFIX, include_in_schema=False)


_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Pictures:
    """Draws pages of stored files."""

    store: FileStore
    exporter: concurrency.Lazy[reader.Reader]
    signer: signing.Signer
    originals: kept.Kept
    drawn: kept.Kept
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def draw(self, path: str, number: int) -> bytes:
        """Give the picture of a page of a stored file."""

        async def make(target: Path) -> None:
            await asyncio.to_thread(target.write_bytes, await self._draw(path, number))

        async with self.drawn.file(f"{path}/{number}", make) as file:
            return await asyncio.to_thread(file.read_bytes)

    async def _draw(self, path: str, number: int) -> bytes:
        name = path.rpartition("/")[2]
        # Originals are large, and what is in use cannot be removed.
        async with (
            self.turns,
            self.originals.file(path, lambda target: self.store.fetch(path, target)) as file,
        ):
            reading = await self.exporter.get()
            return await reading.draw(picturing.Picture(file, name, number))


def make_signer(known: keys.Keys) -> signing.Signer:
    """Make what signs and verifies links to pictures."""
    return signing.Signer(PREFIX, known.secret_key, purpose="pagewarden picture")


@contextlib.asynccontextmanager
async def opened(used: services.Services) -> AsyncIterator[Pictures]:
    """Have a place for pictures, for as long as somebody may look at them."""
    with scratch.folder() as folder:
        originals, drawn = folder / "originals", folder / "drawn"
        originals.mkdir()
        drawn.mkdir()
        yield Pictures(
            used.store,
            used.exporter,
            make_signer(used.keys),
            kept.Kept(originals, max_bytes=_ORIGINALS_BYTES, seconds=_SECONDS),
            kept.Kept(drawn, max_bytes=_PICTURES_BYTES, seconds=_SECONDS),
        )


def _of_app(request: Request) -> Pictures:
    return cast("Pictures", request.app.state.pictures)


@router.get("/{path:path}/{number}")
async def picture(
    path: str,
    number: int,
    pictures: Annotated[Pictures, Depends(_of_app)],
    expires: Annotated[str, Query(max_length=12)],
    signature: Annotated[str, Query(max_length=128)],
) -> Response:
    """Hand out the picture of a page, as long as its URL counts."""
    if not pictures.signer.verify(f"{path}/{number}", expires, signature):
        raise errors.Forbidden("this link does not count, or no longer; open the page again")
    return Response(
        await pictures.draw(path, number),
        media_type=picturing.MEDIA_TYPE,
        headers={
            "Cache-Control": "private, max-age=300",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        },
    )
