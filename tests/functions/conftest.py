"""A functions server on loopback, with a database and a file store of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import HttpUrl, SecretStr

from pagewarden import database as gateways
from pagewarden import settings as settings_module
from tests.documents import readers
from tests.functions import house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support import databases


@pytest.fixture
async def gateway(database: databases.Database) -> AsyncIterator[gateways.Database]:
    """Connect as service role."""
    async with await gateways.connect_direct(database.url()) as found:
        yield found


@pytest.fixture
def chosen(tmp_path: Path) -> settings_module.Settings:
    """Allow small uploads only, and sign URLs of files."""
    return settings_module.Settings(
        home=tmp_path,
        upload_max_bytes=house.UPLOAD_LIMIT,
        files_public_url=HttpUrl("http://127.0.0.1/files/v1"),
        files_signing_key=SecretStr("Zm9yIHRoaXMgdGVzdCBvbmx5LCBvZiBjb3Vyc2U"),
    )


@pytest.fixture
async def functions(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> AsyncIterator[house.House]:
    """Serve all functions, with a reader that reads one page of everything."""
    async with house.opened(database, gateway, chosen, recorder) as opened:
        yield opened


@pytest.fixture
def recorder() -> readers.Recorder:
    """Read what the test says."""
    return readers.Recorder()


@pytest.fixture
async def reading_functions(
    database: databases.Database, gateway: gateways.Database, chosen: settings_module.Settings
) -> AsyncIterator[house.House]:
    """Serve all functions, with the real sandbox and an engine of the test's."""
    async with house.opened(database, gateway, chosen) as opened:
        yield opened
