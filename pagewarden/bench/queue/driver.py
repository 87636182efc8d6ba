"""asyncpg, for every contestant that leaves the choice of the driver to its user.

psycopg cost the load generator two to three times the CPU per job (pgmq, batches 1 to 100); on
a machine that the server shares, that is measured as if it were the queue's.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg  # type: ignore[import-untyped]  # it ships no types
from psycopg import conninfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager


class Connection(Protocol):
    """What is used of a connection; a statement outside a transaction is one of its own."""

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement, or several that take no arguments."""


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Connection]:
    """Open a connection for the time of the block."""
    connection = await asyncpg.connect(**_parameters(url))
    try:
        yield connection
    finally:
        await connection.close()


def pool(url: str) -> AbstractAsyncContextManager[Any]:
    """Open a pool for the time of the block."""
    opened: AbstractAsyncContextManager[Any] = asyncpg.create_pool(
        **_parameters(url), min_size=1, max_size=2
    )
    return opened


def _parameters(url: str) -> dict[str, object]:
    # asyncpg reads URLs but not the key=value form that psycopg makes of them.
    names = {
        "host": "host",
        "port": "port",
        "user": "user",
        "password": "password",
        "dbname": "database",
    }
    known = conninfo.conninfo_to_dict(url)
    return {names[key]: value for key, value in known.items() if key in names}
