"""Both transports to a database: directly to Postgres, and over HTTP."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from pagewarden import database as clients
from tests.support import lite as lites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

NAMES = ["direct", "http"]


@contextlib.asynccontextmanager
async def open_database(name: str, database: databases.Database) -> AsyncIterator[clients.Database]:
    """Connect to a migrated database as the service role."""
    async with contextlib.AsyncExitStack() as stack:
        if name == "direct":
            client: clients.Database = await clients.connect_direct(database.url())
        elif lites.is_installed():
            lite = await stack.enter_async_context(
                lites.run_lite(database.tcp_url("authenticator"))
            )
            client = clients.connect_http(lite.url, lite.key)
        else:
            pytest.skip("@supabase/lite is not installed; make test installs it")
        yield await stack.enter_async_context(client)
