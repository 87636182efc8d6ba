"""Read documents whose files are in a store: fetch, read, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.documents import claims, languages, manners, read_pages
from pagewarden.files import scratch
from pagewarden.reading import engines
from pagewarden.reading import reader as readers
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping

    from pagewarden.files import FileStore
    from pagewarden.settings import Settings


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a document is read that has no wishes of its own."""

    engine: str = engines.DEFAULT
    profile: str = engines.BALANCED
    language: str | None = None

    def of(self, claim: claims.Claim) -> Wishes:
        """Fill in what the document leaves open; what nobody has is refused."""
        if claim.engine is not None and claim.engine not in engines.ENGINES:
            raise errors.EngineMissing(
                f"there is no engine {claim.engine!r}; have it read again with one of "
                f"{', '.join(engines.ENGINES)}"
            )
        if claim.profile is not None and claim.profile not in engines.PROFILES:
            raise errors.EngineMissing(
                f"there is no profile {claim.profile!r}; have it read again with one of "
                f"{', '.join(engines.PROFILES)}"
            )
        return Wishes(
            claim.engine or self.engine,
            claim.profile or self.profile,
            claim.language or self.language,
        )

    @classmethod
    def usual(cls, settings: Settings) -> Wishes:
        """Wish for what the settings say."""
        return cls(settings.engine, settings.profile)


USUAL = Wishes()


class StoreReader:
    """Reads for any number of workers of this process; one reader for each engine and profile."""

    def __init__(  # noqa: PLR0913  # what opened() has put together
        self,
        store: FileStore,
        folder: Path,
        resources: contextlib.AsyncExitStack,
        *,
        wishes: Wishes,
        ways: Mapping[str, manners.Manners],
        make: Callable[[str, str], readers.Reader],
    ) -> None:
        self._store = store
        self._folder = folder
        self._resources = resources
        self._wishes = wishes
        self._ways = ways
        self._make = make
        self._readers: dict[tuple[str, str], readers.Reader] = {}
        self._opening = asyncio.Lock()

    async def run_for(self, claim: claims.Claim) -> claims.Run:
        """Name engine, version and profile."""
        wishes = self._wishes.of(claim)
        reader = await self.reader(wishes)
        return claims.Run(wishes.engine, reader.version, wishes.profile)

    async def read(self, claim: claims.Claim, done: frozenset[int]) -> AsyncGenerator[claims.Page]:
        """Fetch the file and read its pages, in the manner of its lane."""
        way = self._ways.get(claim.lane, manners.USUAL)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder, "document")
            with tracing.span("fetch"):
                await self._store.fetch(_path(claim), path)

            def again(known: frozenset[int]) -> AsyncGenerator[claims.Page]:
                return self._read(claim, path, done | known, way)

            async with contextlib.aclosing(way.patiently(again)) as found:
                async for page in found:
                    yield page

    async def _read(
        self, claim: claims.Claim, path: Path, done: frozenset[int], way: manners.Manners
    ) -> AsyncGenerator[claims.Page]:
        wishes = self._wishes.of(claim)
        reader = await self.reader(wishes)
        counts: list[int] = []
        found = reader.read(
            path,
            name=claim.name,
            languages=languages.for_engine(wishes.language),
            done=done,
            opened=counts.append,
            limits=way.limits,
            strict=way.strict,
        )
        language = languages.for_search(wishes.language)
        with self._blame(wishes):
            async with contextlib.aclosing(found):
                began = tracing.now()
                async for page in found:
                    tracing.record_span("page", began, page=page.number, source=page.source)
                    yield read_pages.to_page(page, of=counts[-1], language=language)
                    began = tracing.now()

    async def reader(self, wishes: Wishes) -> readers.Reader:
        """Have the reader of an engine and profile, started when it is first asked for."""
        profile = wishes.profile if engines.find(wishes.engine).has_profiles else engines.BALANCED
        key = wishes.engine, profile
        async with self._opening:
            if key not in self._readers:
                made = self._make(wishes.engine, profile)
                self._readers[key] = await self._resources.enter_async_context(made)
        return self._readers[key]

    @contextlib.contextmanager
    def _blame(self, wishes: Wishes) -> Iterator[None]:
        """Take the usual engine for away when it is set up wrongly: no document can help it.

        Whoever wished for another one has to wish again, and stops nobody else.
        """
        try:
            yield
        except (errors.EngineMissing, errors.KeyRefused) as exc:
            if wishes.engine != self._wishes.engine:
                raise
            raise errors.EngineAway(str(exc)) from exc


@contextlib.asynccontextmanager
async def opened(
    store: FileStore,
    *,
    wishes: Wishes = USUAL,
    processes: int | None = None,
    ways: Mapping[str, manners.Manners] = manners.NONE,
    permit: engines.Permit | None = None,
) -> AsyncIterator[StoreReader]:
    """Start the reader that most documents need, so that what is missing is known at once.

    permit is asked before each call of an engine that is somewhere else.
    """

    def make(engine: str, profile: str) -> readers.Reader:
        return readers.Reader(engine=engine, profile=profile, processes=processes, permit=permit)

    async with contextlib.AsyncExitStack() as resources:
        folder = resources.enter_context(scratch.folder())
        made = StoreReader(store, folder, resources, wishes=wishes, ways=ways, make=make)
        await made.reader(wishes)
        yield made


def _path(claim: claims.Claim) -> str:
    if claim.path is None:
        raise errors.FileNotThere(f"{claim.name!r} has no file; upload it again")
    return claim.path.removeprefix("/")
