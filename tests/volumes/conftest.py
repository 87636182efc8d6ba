"""Buckets and databases for volumes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from pagewarden import database as databases_module
from pagewarden import settings
from pagewarden.volumes import artifacts, stage_attempt
from tests.volumes import house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support import databases


@pytest.fixture
def places(tmp_path: Path) -> stage_attempt.StageEnvironment:
    """Return folders for images and artifacts."""
    output = artifacts.open_bucket(str(tmp_path / "output"), settings.Settings())
    return stage_attempt.StageEnvironment(
        artifacts.open_bucket(str(tmp_path / "input"), settings.Settings()), output
    )


@pytest.fixture
async def home(
    database: databases.Database,
    places: stage_attempt.StageEnvironment,
    tmp_path: Path,
) -> AsyncIterator[house.House]:
    """Open a database and folders, for workers in this process."""
    async with contextlib.AsyncExitStack() as resources:
        service = await resources.enter_async_context(
            await databases_module.connect_direct(database.url())
        )
        worker = await resources.enter_async_context(
            await databases_module.connect_direct(database.url("pagewarden_worker"))
        )
        yield house.House(
            service,
            worker,
            places,
            tmp_path / "output",
            database.url(),
            database.url("pagewarden_worker"),
            await database.connect(),
        )
