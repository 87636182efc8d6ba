"""A database that is ready to work with: the embedded one, or the one the settings name."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import database
from pagewarden.local import bootstrap, cluster, migrations, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.settings import Settings


ANOTHER_HOME = "set PAGEWARDEN_HOME to another folder, and upload or import the files again"


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the database is, and what had to be done to it."""

    url: str = field(repr=False)
    place: str
    applied: list[str]
    server: server.LocalServer | None = None

    @property
    def news(self) -> str:
        """Say what had to be done."""
        return f"{len(self.applied)} migrations applied" if self.applied else "up to date"


@contextlib.asynccontextmanager
async def located(settings: Settings) -> AsyncIterator[Stack]:
    """Find the database, starting the embedded one if need be, and change nothing in it."""
    if settings.database_url is not None:
        yield Stack(settings.database_url.get_secret_value(), "the database of the settings", [])
        return
    async with server.running(settings.home) as local:
        yield _embedded(local, settings, [])


@contextlib.asynccontextmanager
async def ready(settings: Settings) -> AsyncIterator[Stack]:
    """Find the database and bring it up to date; refuse one with another schema unchanged."""
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        await migrations.pending(url)  # before the bootstrap, which changes the database
        await bootstrap.bootstrap(url)
        yield Stack(url, "the database of the settings", await migrations.migrate(url))
        return
    async with server.running(settings.home) as local:
        superuser = local.url(cluster.SUPERUSER)
        await migrations.pending(superuser, alternative=ANOTHER_HOME)
        await bootstrap.bootstrap(superuser, password=local.password)
        applied = await migrations.migrate(local.url(), alternative=ANOTHER_HOME)
        yield _embedded(local, settings, applied)


def _embedded(local: server.LocalServer, settings: Settings, applied: list[str]) -> Stack:
    place = f"Postgres {local.version} in {settings.home}"
    return Stack(local.url(), place, applied, local)


@contextlib.asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[database.Database]:
    """Connect as service role: over HTTP where a Supabase project is set, otherwise directly."""
    if settings.supabase_url is not None:
        async with await database.connect(settings) as connection:
            yield connection
        return
    async with ready(settings) as stack, await database.connect_direct(stack.url) as connection:
        yield connection
