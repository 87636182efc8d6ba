"""A desk for every test, on one database for the tests of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.documents import readers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

__all__ = ["desk"]


@pytest.fixture
async def desk(database: databases.Database) -> AsyncIterator[readers.Desk]:
    """Give the test a database without documents, and a way to it."""
    async with readers.opened(database) as opened:
        yield opened
