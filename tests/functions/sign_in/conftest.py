"""A running sign-in for each module."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI

from pagewarden.auth.embedded import routes, service
from tests.functions.sign_in import houses
from tests.support import databases
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server


@pytest.fixture(scope="module")
async def running(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[houses.House]:
    """Run a sign-in for all tests of this module."""
    async with databases.open_clone(local_server, migrated_template) as database:
        house = houses.House(database)
        house.service = service.AuthService(
            database.url(),
            houses.KEYS,
            site_url=houses.SITE,
            deliver=house.deliver,
            now=house.now,
            hasher=houses.CHEAP,
        )
        app = FastAPI()
        app.include_router(routes.make_router(house.service))
        async with serve_app(app) as house.url:
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
    async with databases.open_clone(local_server, migrated_template) as database:
        house = houses.House(database)
        house.service = service.AuthService(
            database.url(), houses.KEYS, site_url=houses.SITE, hasher=houses.CHEAP
        )
        yield house
        await house.service.aclose()
