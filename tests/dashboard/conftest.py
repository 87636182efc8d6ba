"""A dashboard on loopback, with a database of the test's own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright import async_api as playwright

from pagewarden.local.sign_in import service
from tests.dashboard import place as places
from tests.documents import readers
from tests.functions import house
from tests.functions.conftest import chosen, gateway
from tests.functions.sign_in import houses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden import database as gateways
    from pagewarden import documents
    from pagewarden import settings as settings_module
    from tests.support import databases

__all__ = ["chosen", "gateway"]

# On a machine that does much else at once; what never comes is told all the same.
playwright.expect.set_options(timeout=20_000)


@pytest.fixture
def reader() -> documents.Reader:
    """Read one page of everything."""
    return readers.Recorder()


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[playwright.Browser]:
    """Run the one browser of these tests; each opens windows of its own, with its own cookies."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert found, "there is no chromium; install it with `make setup` as root, or by hand"
    async with playwright.async_playwright() as programs:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = await programs.chromium.launch(executable_path=found, args=options)
        yield browser
        await browser.close()


@pytest.fixture
async def place(
    database: databases.Database,
    gateway: gateways.Database,  # a fixture
    chosen: settings_module.Settings,  # a fixture
    reader: documents.Reader,
    chromium: playwright.Browser,  # a fixture
) -> AsyncIterator[places.Place]:
    """Serve the dashboard with a sign-in whose clock can be moved."""
    clock = places.Clock()
    signing_in = service.Service(
        database.url(), house.KEYS, site_url=chosen.site_url, now=clock.now, hasher=houses.CHEAP
    )
    async with house.opened(database, gateway, chosen, reader, signing_in=signing_in) as opened:
        yield places.Place(opened, signing_in, clock, chromium)
    await signing_in.aclose()
