"""Read documents by the GPU service: their files are streamed to it, their pages stream back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import errors, keys
from pagewarden.documents import claims, languages, read_pages, store_reader
from pagewarden.gpu import client as clients
from pagewarden.gpu import protocol, ranges
from pagewarden.reading import engines
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from pagewarden.files import FileStore
    from pagewarden.settings import Settings

# The service fetches a file at once, or soon after it had no room.
URL_SECONDS = 3600
# Runs that were named and not yet read; whoever loses a document in between leaves one behind.
_MOST_NAMED = 1000


class GpuReader:
    """Reads for any number of workers; the usual engine is the one that the service has.

    sends_urls: the service fetches files itself, where the store signs URLs.
    """

    def __init__(
        self,
        store: FileStore,
        client: clients.Client,
        *,
        wishes: store_reader.Wishes = store_reader.USUAL,
        sends_urls: bool = False,
    ) -> None:
        self._store = store
        self._client = client
        self._wishes = wishes
        self._sends_urls = sends_urls
        self._named: dict[str, tuple[claims.Run, int]] = {}

    async def run_for(self, claim: claims.Claim) -> claims.Run:
        """Ask the service for engine and version."""
        run, _ = self._named[claim.lock_token] = await self._ask(claim)
        if len(self._named) > _MOST_NAMED:
            del self._named[next(iter(self._named))]
        return run

    async def read(self, claim: claims.Claim, done: frozenset[int]) -> AsyncGenerator[claims.Page]:
        """Have the pages read that are not done; all of them by the version run_for named."""
        named = self._named.pop(claim.lock_token, None)
        run, max_bytes = named or await self._ask(claim)
        language = claim.language or self._wishes.language
        order = protocol.Order(
            name=claim.name[: protocol.MAX_NAME] or "document",
            pages=ranges.without(done),
            engine=self._engine(claim),
            profile=run.profile,
            languages=languages.for_engine(language),
        )
        count, began = None, tracing.now()
        with _blame(claim):
            async with contextlib.aclosing(await self._lines(claim, order, max_bytes)) as lines:
                async for line in lines:
                    if line.document is not None:
                        _require_same(run, line.document)
                        count = line.document.page_count
                    if line.page is not None:
                        searched = languages.for_search(language)
                        tracing.record_span(
                            "page", began, page=line.page.number, source=line.page.source
                        )
                        yield read_pages.to_page(line.page, of=count, language=searched)
                        began = tracing.now()

    async def _ask(self, claim: claims.Claim) -> tuple[claims.Run, int]:
        profile = claim.profile or self._wishes.profile
        with _blame(claim):
            about = await self._client.about(self._engine(claim), profile)
        return claims.Run(about.engine, about.version, about.profile), about.max_bytes

    def _engine(self, claim: claims.Claim) -> str | None:
        usual = self._wishes.engine
        return claim.engine or (None if usual == engines.DEFAULT else usual)

    async def _lines(
        self, claim: claims.Claim, order: protocol.Order, max_bytes: int
    ) -> AsyncGenerator[protocol.Line]:
        path = _path(claim)
        if self._sends_urls and (url := await self._store.signed_url(path, URL_SECONDS)):
            return self._client.read_url(order.model_copy(update={"url": url}))
        entry = await self._store.stat(path)
        if entry is None:
            # The store itself may be gone; asked for the file, it says so.
            async with contextlib.aclosing(self._store.read(path)) as chunks:
                await anext(chunks, None)
            raise errors.FileNotThere(f"the file of {claim.name!r} is gone; upload it again")
        if entry.size > max_bytes:
            raise errors.TooLarge(
                f"{claim.name!r} has {entry.size} bytes, and the GPU service takes {max_bytes} at "
                "most; set PAGEWARDEN_UPLOAD_MAX_BYTES there, or split it"
            )
        return self._client.read(order, entry.size, lambda: self._store.read(path))


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, store: FileStore, *, wishes: store_reader.Wishes = store_reader.USUAL
) -> AsyncIterator[GpuReader]:
    """Have the reader for the service that the settings name."""
    if settings.gpu_service_url is None:
        raise errors.SettingsError("PAGEWARDEN_GPU_SERVICE_URL is not set; say where it is")
    async with clients.Client(
        str(settings.gpu_service_url),
        keys.secret_key(settings),
        silence_seconds=settings.gpu_silence_seconds,
    ) as client:
        yield GpuReader(store, client, wishes=wishes, sends_urls=settings.gpu_fetches_files)


@contextlib.contextmanager
def _blame(claim: claims.Claim) -> Iterator[None]:
    """Take a service that is set up wrongly for away: no document can help it.

    Whoever wished for an engine it does not have has to wish again.
    """
    try:
        yield
    except errors.KeyRefused as exc:
        raise errors.EngineAway(str(exc)) from exc
    except errors.EngineMissing as exc:
        if claim.engine is not None or claim.profile is not None:
            raise
        raise errors.EngineAway(str(exc)) from exc


def _require_same(run: claims.Run, document: protocol.Document) -> None:
    found = claims.Run(document.engine, document.version, document.profile)
    if found != run:
        raise errors.EngineAway(
            f"the GPU service reads with {found.engine} {found.version} now, and no longer with "
            f"{run.engine} {run.version}; the document begins anew"
        )


def _path(claim: claims.Claim) -> str:
    if claim.path is None:
        raise errors.FileNotThere(f"{claim.name!r} has no file; upload it again")
    return claim.path.removeprefix("/")
