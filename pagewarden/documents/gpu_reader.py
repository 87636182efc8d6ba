"""GpuReader: stream files to the GPU service, and their pages back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.auth import keys
from pagewarden.documents import pages
from pagewarden.documents.claim import DEFAULT_OPTIONS, Claim, Page, ReadingRun, ReadOptions
from pagewarden.ocr import engines, gpu_client, gpu_protocol, languages, page_ranges
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from pagewarden.settings import Settings
    from pagewarden.storage import FileStore

# The service fetches a file immediately, or after waiting for capacity.
URL_SECONDS = 3600
# Runs requested but not yet used; an attempt that fails in between leaves its run behind.
_MAX_RUNS = 1000


class GpuReader:
    """Reads documents with the GPU service, by default with the service's default engine.

    With `sends_urls`, the service fetches the files itself if the store signs URLs. Any number of
    workers may share a reader.
    """

    def __init__(
        self,
        store: FileStore,
        client: gpu_client.Client,
        *,
        options: ReadOptions = DEFAULT_OPTIONS,
        sends_urls: bool = False,
    ) -> None:
        self._store = store
        self._client = client
        self._options = options
        self._sends_urls = sends_urls
        self._runs: dict[str, tuple[ReadingRun, int]] = {}

    async def get_run(self, claim: Claim) -> ReadingRun:
        """Request engine, version and profile from the service."""
        run, _ = self._runs[claim.lock_token] = await self._request_run(claim)
        if len(self._runs) > _MAX_RUNS:
            del self._runs[next(iter(self._runs))]
        return run

    async def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Read the pages that are not done, all with the version that get_run returned."""
        known = self._runs.pop(claim.lock_token, None)
        run, max_bytes = known or await self._request_run(claim)
        language = claim.language or self._options.language
        request = gpu_protocol.ReadRequest(
            name=claim.name[: gpu_protocol.MAX_NAME] or "document",
            pages=page_ranges.all_except(done),
            engine=self._engine(claim),
            profile=run.profile,
            languages=languages.to_engine_codes(language),
        )
        page_count, began = None, tracing.now()
        with _as_outage(claim):
            async with contextlib.aclosing(await self._send(claim, request, max_bytes)) as lines:
                async for line in lines:
                    if line.document is not None:
                        _require_same_run(run, line.document)
                        page_count = line.document.page_count
                    if line.page is not None:
                        tracing.record_span(
                            "page", began, page=line.page.number, source=line.page.source
                        )
                        yield pages.to_saved_page(
                            line.page,
                            page_count=page_count,
                            language=languages.to_search_code(language),
                        )
                        began = tracing.now()

    async def _request_run(self, claim: Claim) -> tuple[ReadingRun, int]:
        """Return the run, and the size of the largest file that the service accepts."""
        profile = claim.profile or self._options.profile
        with _as_outage(claim):
            info = await self._client.get_info(self._engine(claim), profile)
        return ReadingRun(info.engine, info.version, info.profile), info.max_bytes

    def _engine(self, claim: Claim) -> str | None:
        default = self._options.engine
        return claim.engine or (None if default == engines.DEFAULT else default)

    async def _send(
        self, claim: Claim, request: gpu_protocol.ReadRequest, max_bytes: int
    ) -> AsyncGenerator[gpu_protocol.ResponseLine]:
        path = claim.store_path
        if self._sends_urls and (url := await self._store.create_signed_url(path, URL_SECONDS)):
            return self._client.read_url(request.model_copy(update={"url": url}))
        entry = await self._store.stat(path)
        if entry is None:
            # If the store itself is missing, reading a file raises the right error.
            async with contextlib.aclosing(self._store.read(path)) as chunks:
                await anext(chunks, None)
            raise errors.FileNotFound(f"the file of {claim.name!r} is missing; upload it again")
        if entry.size > max_bytes:
            raise errors.DocumentTooLarge(
                f"{claim.name!r} has {entry.size} bytes, but the GPU service accepts at most "
                f"{max_bytes}; raise PAGEWARDEN_UPLOAD_MAX_BYTES there, or split the file"
            )
        return self._client.read(request, entry.size, lambda: self._store.read(path))


@contextlib.asynccontextmanager
async def open_gpu_reader(
    settings: Settings, store: FileStore, *, options: ReadOptions = DEFAULT_OPTIONS
) -> AsyncIterator[GpuReader]:
    """Connect to the GPU service of the settings."""
    if settings.gpu_service_url is None:
        raise errors.SettingsError(
            "PAGEWARDEN_GPU_SERVICE_URL is not set; set it to the URL of the GPU service"
        )
    async with gpu_client.Client(
        str(settings.gpu_service_url),
        keys.load_secret_key(settings),
        silence_seconds=settings.gpu_silence_seconds,
    ) as client:
        yield GpuReader(store, client, options=options, sends_urls=settings.gpu_fetches_files)


@contextlib.contextmanager
def _as_outage(claim: Claim) -> Iterator[None]:
    """Report a misconfigured service as an outage, because it affects all documents.

    A document that names an engine or profile unknown to the service fails.
    """
    try:
        yield
    except errors.ApiKeyRejected as exc:
        raise errors.EngineUnavailable(str(exc)) from exc
    except errors.EngineNotInstalled as exc:
        if claim.engine is not None or claim.profile is not None:
            raise
        raise errors.EngineUnavailable(str(exc)) from exc


def _require_same_run(run: ReadingRun, document: gpu_protocol.Document) -> None:
    current = ReadingRun(document.engine, document.version, document.profile)
    if current != run:
        raise errors.EngineUnavailable(
            f"the GPU service now reads with {current.engine} {current.version} instead of "
            f"{run.engine} {run.version}; the document will be read again from the beginning"
        )
