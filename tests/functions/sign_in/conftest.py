"""A running sign-in for each module."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI

from pagewarden.local.sign_in import routes, service
from tests.functions.sign_in import houses
from tests.support import databases
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server


@pytest.fixture(scope="module")
async def running(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[houses.House]:
    """Run a sign-in for all tests of this module."""
    async with databases.cloned(local_server, migrated_template) as database:
        house = houses.House(database)
        house.service = service.Service(
            database.url(),
            houses.KEYS,
            site_url=houses.SITE,
            deliver=house.deliver,
            now=house.now,
            hasher=houses.CHEAP,
        )
        app = FastAPI()
        app.include_router(routes.router(house.service))
        async with serving(app) as house.url:
            yield house
        await house.service.aclose()


@pytest.fixture
async def house(running: houses.House) -> houses.House:
    """Give a test the sign-in as new: the right time, and nobody has failed."""
    running.ahead = dt.timedelta(0)
    running.sent.clear()
    conn = await running.database.connect()
    await conn.execute("delete from auth.failed_sign_ins")
    return running


@pytest.fixture
async def empty_house(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[houses.House]:
    """Give a test a sign-in where nobody is yet."""
    async with databases.cloned(local_server, migrated_template) as database:
        house = houses.House(database)
        house.service = service.Service(
            database.url(), houses.KEYS, site_url=houses.SITE, hasher=houses.CHEAP
        )
        yield house
        await house.service.aclose()
