"""Open the database: a Supabase project, a configured Postgres, or the embedded server."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import database
from pagewarden.database import listener
from pagewarden.database.direct import DEFAULT_CONNECTIONS
from pagewarden.local import bootstrap, cluster, migrations
from pagewarden.local.server import LocalServer, open_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import LiteralString

    from pagewarden.database import Database
    from pagewarden.settings import Settings

USE_ANOTHER_HOME = "set PAGEWARDEN_HOME to another folder, and upload or import the files again"


@dataclass(frozen=True, slots=True)
class Stack:
    """A Postgres database, and the migrations that were applied to it."""

    url: str = field(repr=False)
    description: str
    applied: list[str]
    server: LocalServer | None = None

    @property
    def summary(self) -> str:
        """Whether migrations were applied."""
        return f"{len(self.applied)} migrations applied" if self.applied else "up to date"


@contextlib.asynccontextmanager
async def open_database(settings: Settings, *, migrate: bool = True) -> AsyncIterator[Database]:
    """Connect as service role, over HTTP if a Supabase project is set, otherwise directly.

    A directly connected database is brought up to date first, unless `migrate` is false.
    """
    async with open_database_with_url(settings, migrate=migrate) as (connection, _):
        yield connection


@contextlib.asynccontextmanager
async def open_database_with_url(
    settings: Settings, *, migrate: bool, connections: int = DEFAULT_CONNECTIONS
) -> AsyncIterator[tuple[Database, str | None]]:
    """Connect as open_database() does; the URL is None over HTTP."""
    if settings.supabase_url is not None:
        async with await database.connect(settings) as connection:
            yield connection, None
        return
    async with (
        (open_migrated if migrate else open_existing)(settings) as stack,
        await database.connect_direct(stack.url, connections=connections) as connection,
    ):
        yield connection, stack.url


@contextlib.asynccontextmanager
async def open_worker_database(
    settings: Settings,
    *,
    connections: int,
    channel: LiteralString = listener.DOCUMENT_CHANNEL,
) -> AsyncIterator[tuple[Database, listener.Listener]]:
    """Connect a worker, with its listener; the schema stays as it is."""
    async with (
        open_database_with_url(settings, migrate=False, connections=connections) as (
            connection,
            url,
        ),
        listener.open_listener(url, channel) as wake_ups,
    ):
        yield connection, wake_ups


@contextlib.asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[Stack]:
    """Find the database without changing it, and start the embedded server if needed."""
    if settings.database_url is not None:
        yield _make_configured_stack(settings.database_url.get_secret_value(), [])
        return
    async with open_server(settings.home) as server:
        yield _make_embedded_stack(server, settings, [])


@contextlib.asynccontextmanager
async def open_migrated(settings: Settings) -> AsyncIterator[Stack]:
    """Find the database and bring it up to date; raise if it has an unknown schema."""
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        await migrations.list_pending(url)  # raises before the bootstrap changes anything
        await bootstrap.bootstrap(url)
        yield _make_configured_stack(url, await migrations.migrate(url))
        return
    async with open_server(settings.home) as server:
        superuser_url = server.url(cluster.SUPERUSER)
        await migrations.list_pending(superuser_url, alternative=USE_ANOTHER_HOME)
        await bootstrap.bootstrap(superuser_url, password=server.password)
        applied = await migrations.migrate(server.url(), alternative=USE_ANOTHER_HOME)
        yield _make_embedded_stack(server, settings, applied)


def _make_configured_stack(url: str, applied_migrations: list[str]) -> Stack:
    return Stack(url, "configured database", applied_migrations)


def _make_embedded_stack(
    server: LocalServer, settings: Settings, applied_migrations: list[str]
) -> Stack:
    description = f"Postgres {server.version} in {settings.home}"
    return Stack(server.url(), description, applied_migrations, server)
