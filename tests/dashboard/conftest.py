"""A dashboard on loopback, with a database per test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright import async_api as playwright

from pagewarden.auth.embedded import service
from tests.dashboard import site as sites
from tests.documents import readers
from tests.functions import house
from tests.functions.conftest import chosen, gateway
from tests.functions.sign_in import houses
from tests.support import chromium as browsers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden import database as gateways
    from pagewarden import documents
    from pagewarden import settings as settings_module
    from tests.support import databases

__all__ = ["chosen", "gateway"]

# Long enough for a busy machine.
playwright.expect.set_options(timeout=20_000)


@pytest.fixture
def reader() -> documents.DocumentReader:
    """Return a reader that reads one page of each document."""
    return readers.Recorder()


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[playwright.Browser]:
    """Run one browser for all tests; each test opens its own context, with its own cookies."""
    async with browsers.run_chromium() as browser:
        yield browser


@pytest.fixture
async def site(
    database: databases.Database,
    gateway: gateways.Database,  # a fixture
    chosen: settings_module.Settings,  # a fixture
    reader: documents.DocumentReader,
    chromium: playwright.Browser,  # a fixture
) -> AsyncIterator[sites.Site]:
    """Serve the dashboard, with a sign-in service whose clock the test controls."""
    clock = sites.Clock()
    signing_in = service.AuthService(
        database.url(), house.KEYS, site_url=chosen.site_url, now=clock.now, hasher=houses.CHEAP
    )
    async with house.opened(database, gateway, chosen, reader, signing_in=signing_in) as opened:
        yield sites.Site(opened, signing_in, clock, chromium)
    await signing_in.aclose()
