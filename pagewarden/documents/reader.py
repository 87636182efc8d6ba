"""LaneReader selects the local engine or the GPU service; LocalReader; engine rate limit."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import concurrency, errors
from pagewarden.database.retry import retry_until_available
from pagewarden.documents import gpu_reader, lanes, pages, routing
from pagewarden.documents.claim import (
    DEFAULT_OPTIONS,
    Claim,
    DocumentReader,
    Page,
    ReadingRun,
    ReadOptions,
)
from pagewarden.documents.lanes import PDF
from pagewarden.ocr import engines, languages
from pagewarden.ocr.reader import Reader
from pagewarden.storage import scratch
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.documents.lanes import LanePolicy
    from pagewarden.ocr.engines import base
    from pagewarden.settings import Settings
    from pagewarden.storage import FileStore

_NO_POLICIES: Mapping[str, LanePolicy] = MappingProxyType({})


class LaneReader:
    """Selects the reader of each document: the GPU service for PDFs if configured, else local.

    A reader is started on first use.
    """

    def __init__(
        self,
        local: concurrency.LazyResource[DocumentReader],
        remote: concurrency.LazyResource[DocumentReader] | None,
        store: FileStore,
        database: Database,
    ) -> None:
        self._local = local
        self._remote = remote
        self._store = store
        self._database = database

    async def start(self, lanes: Sequence[str]) -> None:
        """Start the readers of these lanes, so that a missing engine is reported at startup."""
        for lane in lanes:
            await self._select(None, is_pdf=lane == PDF).get()

    async def select_reader(self, claim: Claim) -> DocumentReader:
        """Return the reader for this document, and start it first if needed."""
        function = await routing.find_function(claim, self._store)
        if claim.lane in lanes.REGISTRY:  # other lanes are not claimed while theirs is disabled
            await self._require_enabled(function)
        return await self._select(claim.engine, is_pdf=function == routing.PDF_EXTRACT).get()

    async def _require_enabled(self, function: str) -> None:
        if not await retry_until_available(
            self._database.is_function_enabled, function_name=function
        ):
            raise errors.FunctionDisabled(f"{function} is disabled")

    def _select(
        self, engine: str | None, *, is_pdf: bool
    ) -> concurrency.LazyResource[DocumentReader]:
        # The GPU service has no API keys, so remote engines are called by the local reader.
        entry = engines.ENGINES.get(engine) if engine else None
        remote = self._remote if is_pdf and not (entry and entry.remote) else None
        return remote or self._local


@contextlib.asynccontextmanager
async def open_lane_reader(
    settings: Settings,
    store: FileStore,
    database: Database,
    *,
    options: ReadOptions = DEFAULT_OPTIONS,
    processes: int | None = None,
) -> AsyncIterator[LaneReader]:
    """Open the readers of all lanes, each on first use."""
    permit = make_engine_permit(database, settings.engine_calls_per_second)

    def open_local() -> contextlib.AbstractAsyncContextManager[DocumentReader]:
        policies = lanes.policies_from_settings(settings)
        return open_local_reader(
            store, options=options, processes=processes, policies=policies, permit=permit
        )

    def open_remote() -> contextlib.AbstractAsyncContextManager[DocumentReader]:
        return gpu_reader.open_gpu_reader(settings, store, options=options)

    async with (
        concurrency.open_lazily(open_local) as local,
        concurrency.open_lazily(open_remote) as remote,
    ):
        remote_reader = remote if settings.gpu_service_url else None
        yield LaneReader(local, remote_reader, store, database)


class LocalReader:
    """Reads documents locally, with one OCR reader per engine and profile.

    Any number of workers may share it.
    """

    def __init__(  # noqa: PLR0913  # open_local_reader() collects them
        self,
        store: FileStore,
        folder: Path,
        resources: contextlib.AsyncExitStack,
        *,
        options: ReadOptions,
        policies: Mapping[str, LanePolicy],
        make_reader: Callable[[str, str], Reader],
    ) -> None:
        self._store = store
        self._folder = folder
        self._resources = resources
        self._options = options
        self._policies = policies
        self._make_reader = make_reader
        self._readers: dict[tuple[str, str], Reader] = {}
        self._opening = asyncio.Lock()

    async def get_run(self, claim: Claim) -> ReadingRun:
        """Return engine, version and profile."""
        options = self._options.resolve(claim)
        reader = await self.open_reader(options)
        return ReadingRun(options.engine, reader.version, options.profile)

    async def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Fetch the file and read its pages, by the policy of its lane."""
        policy = self._policies.get(claim.lane, lanes.DEFAULT_POLICY)
        options = self._options.resolve(claim)
        language = languages.to_search_code(options.language)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder, "document")
            with tracing.span("fetch"):
                await self._store.fetch(claim.store_path, path)
            async for attempt in policy.attempts():
                with attempt:
                    page_counts: list[int] = []
                    reader = await self.open_reader(options)
                    found = reader.read(
                        path,
                        name=claim.name,
                        languages=languages.to_engine_codes(options.language),
                        skip=done,
                        on_open=page_counts.append,
                        limits=policy.limits,
                        strict=policy.strict,
                    )
                    with self._as_outage(options):
                        async with contextlib.aclosing(found):
                            began = tracing.now()
                            async for page in found:
                                tracing.record_span(
                                    "page", began, page=page.number, source=page.source
                                )
                                yield pages.to_saved_page(
                                    page, page_count=page_counts[-1], language=language
                                )
                                done |= {page.number}
                                began = tracing.now()

    async def open_reader(self, options: ReadOptions) -> Reader:
        """Return the OCR reader of an engine and profile, and start it first if needed."""
        has_profiles = engines.find_engine(options.engine).has_profiles
        profile = options.profile if has_profiles else engines.BALANCED
        key = options.engine, profile
        async with self._opening:
            if key not in self._readers:
                reader = self._make_reader(options.engine, profile)
                self._readers[key] = await self._resources.enter_async_context(reader)
        return self._readers[key]

    @contextlib.contextmanager
    def _as_outage(self, options: ReadOptions) -> Iterator[None]:
        """Report a misconfigured default engine as an outage, because it affects all documents.

        A document that names another engine fails and does not affect the others.
        """
        try:
            yield
        except (errors.EngineNotInstalled, errors.ApiKeyRejected) as exc:
            if options.engine != self._options.engine:
                raise
            raise errors.EngineUnavailable(str(exc)) from exc


@contextlib.asynccontextmanager
async def open_local_reader(
    store: FileStore,
    *,
    options: ReadOptions = DEFAULT_OPTIONS,
    processes: int | None = None,
    policies: Mapping[str, LanePolicy] = _NO_POLICIES,
    permit: base.Permit | None = None,
) -> AsyncIterator[LocalReader]:
    """Open a local reader and start the default engine, so that a missing one is reported early.

    `permit` is called before each call of a remote engine.
    """

    def make_reader(engine: str, profile: str) -> Reader:
        return Reader(engine=engine, profile=profile, processes=processes, permit=permit)

    async with contextlib.AsyncExitStack() as resources:
        folder = resources.enter_context(scratch.open_private_folder())
        reader = LocalReader(
            store, folder, resources, options=options, policies=policies, make_reader=make_reader
        )
        await reader.open_reader(options)
        yield reader


def make_engine_permit(database: Database, per_second: float | None) -> base.Permit | None:
    """Return the permit that engines request before each call; None if there is no limit.

    The limit is in Postgres and shared by all workers. Engines call the permit in their threads.
    """
    if per_second is None:
        return None
    loop = asyncio.get_running_loop()

    async def reserve_call(engine: str) -> float:
        return await database.take_engine_call(engine=engine, per_second=per_second)

    def request_permit(engine: str) -> float:
        return asyncio.run_coroutine_threadsafe(reserve_call(engine), loop).result()

    return request_permit
