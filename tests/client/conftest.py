"""A server on loopback, and somebody who uses it from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden import database as gateways
from pagewarden.auth.embedded import service
from tests.client import desk as desks
from tests.functions import house
from tests.functions.conftest import chosen
from tests.functions.sign_in import houses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden import settings
    from tests.documents import readers
    from tests.support import databases

__all__ = ["chosen", "desk", "recorder"]


@pytest.fixture
def recorder() -> readers.Recorder:
    """Read what the test says."""
    return desks.recorder()


@pytest.fixture
async def desk(
    database: databases.Database,
    chosen: settings.Settings,
    recorder: readers.Recorder,
    tmp_path: Path,
) -> AsyncIterator[desks.Desk]:
    """Serve all functions and the sign-in, with a reader of the test's."""
    signing = service.AuthService(
        database.url(), house.KEYS, site_url="http://x", hasher=houses.CHEAP
    )
    async with (
        await gateways.connect_direct(database.url()) as gateway,
        house.opened(database, gateway, chosen, recorder, signing_in=signing) as opened,
    ):
        yield desks.Desk(opened, signing, tmp_path / "computer")
    await signing.aclose()
