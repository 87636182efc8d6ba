"""The clock of a test run is the clock of the server too; see scripts/clock-test."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support import clock

if TYPE_CHECKING:
    import pytest

    from tests.support import databases

SECONDS = 60.0


async def test_server_and_tests_have_one_clock(
    database: databases.Database, pytestconfig: pytest.Config
) -> None:
    """And it is set, if that was asked for."""
    conn = await database.connect()
    found = await conn.execute("select extract(epoch from clock_timestamp())::float8")
    (server,) = await found.fetchone() or (0.0,)
    assert abs(server - time.time()) < SECONDS
    if boundary := pytestconfig.option.clock:
        assert abs(server - clock.BOUNDARIES[boundary].timestamp()) < SECONDS
