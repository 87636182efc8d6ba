"""A functions server on loopback, with a database and a file store of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden import database as gateways
from pagewarden import settings as settings_module
from tests.functions import house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support import databases


@pytest.fixture
async def functions(database: databases.Database, tmp_path: Path) -> AsyncIterator[house.House]:
    """Serve all functions, with small uploads only."""
    chosen = settings_module.Settings(home=tmp_path, upload_max_bytes=house.UPLOAD_LIMIT)
    async with (
        await gateways.connect_direct(database.url()) as gateway,
        house.opened(database, gateway, chosen) as opened,
    ):
        yield opened
