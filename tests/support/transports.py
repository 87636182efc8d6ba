"""Both ways to a database: straight to Postgres, and over HTTP."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from pagewarden import database as ways
from tests.support import lite as lites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

NAMES = ["direct", "http"]


@contextlib.asynccontextmanager
async def opened(name: str, database: databases.Database) -> AsyncIterator[ways.Database]:
    """Connect to a migrated database as service role."""
    async with contextlib.AsyncExitStack() as stack:
        if name == "direct":
            connected: ways.Database = await ways.connect_direct(database.url())
        elif lites.is_installed():
            lite = await stack.enter_async_context(lites.running(database.tcp_url("authenticator")))
            connected = ways.connect_http(lite.url, lite.key)
        else:
            pytest.skip("@supabase/lite is not installed; make test installs it")
        yield await stack.enter_async_context(connected)
