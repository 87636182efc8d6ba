"""Who reads what: PDFs at the GPU service, where there is one, and everything else here."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden.documents import claims, gpu_reader, manners, permits, store_reader
from pagewarden.reading import engines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from pagewarden.database import Database
    from pagewarden.files import FileStore
    from pagewarden.settings import Settings

PDF = "pdf"
# Images and PDFs are mixed here: the local reader tells them apart by content.
REGISTRY = ("index", "acte")
# Served by default, the preferred one first.
LANES = ("image", "check", PDF, *REGISTRY)
LOCAL_LANES = tuple(lane for lane in LANES if lane != PDF)


class LaneReader:
    """Reads documents of all lanes; what a lane needs is started for its first document."""

    def __init__(
        self, here: concurrency.Lazy[claims.Reader], there: concurrency.Lazy[claims.Reader] | None
    ) -> None:
        self._here = here
        self._there = there

    async def start(self, lanes: Sequence[str]) -> None:
        """Start what these lanes need, so that what is missing is known at once."""
        for lane in lanes:
            await self._reader(lane, None)

    async def run_for(self, claim: claims.Claim) -> claims.Run:
        """Ask whoever is going to read it."""
        reader = await self._reader(claim.lane, claim.engine)
        return await reader.run_for(claim)

    async def read(self, claim: claims.Claim, done: frozenset[int]) -> AsyncGenerator[claims.Page]:
        """Have it read."""
        reader = await self._reader(claim.lane, claim.engine)
        async with contextlib.aclosing(reader.read(claim, done)) as found:
            async for page in found:
                yield page

    async def _reader(self, lane: str, engine: str | None) -> claims.Reader:
        # The service has no keys, so an engine that is somewhere else is called from here.
        entry = engines.ENGINES.get(engine) if engine else None
        away = self._there if lane == PDF and not (entry and entry.remote) else None
        return await (away or self._here).get()


@contextlib.asynccontextmanager
async def opened(
    settings: Settings,
    store: FileStore,
    database: Database,
    *,
    wishes: store_reader.Wishes = store_reader.USUAL,
    processes: int | None = None,
) -> AsyncIterator[LaneReader]:
    """Have a reader for the documents of all lanes."""
    permit = permits.permit(database, settings.engine_calls_per_second)

    def here() -> contextlib.AbstractAsyncContextManager[claims.Reader]:
        ways = manners.of_lanes(settings)
        return store_reader.opened(
            store, wishes=wishes, processes=processes, ways=ways, permit=permit
        )

    def there() -> contextlib.AbstractAsyncContextManager[claims.Reader]:
        return gpu_reader.opened(settings, store, wishes=wishes)

    async with concurrency.open_lazily(here) as local, concurrency.open_lazily(there) as remote:
        yield LaneReader(local, remote if settings.gpu_service_url else None)
