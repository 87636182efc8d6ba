"""Memory use of stores with large files."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pydantic

from tests.storage import streamer

if TYPE_CHECKING:
    from tests.storage import stores


async def test_memory_does_not_grow_with_the_file(backend: stores.Backend) -> None:
    """Measured in a separate process; slow stores have more blocks in flight."""
    values = {name: _plain(value) for name, value in backend.settings if _is_storage_setting(name)}
    environment = {f"PAGEWARDEN_{name.upper()}": value for name, value in values.items() if value}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.storage.streamer"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await program.communicate()

    first, second = map(int, output.split())
    assert program.returncode == 0
    grown = (streamer.LARGE - streamer.SMALL) * 1024
    assert second - first < grown / 2


def _is_storage_setting(name: str) -> bool:
    return name.startswith(("files", "dropbox", "s3"))


def _plain(value: object) -> str:
    if isinstance(value, pydantic.SecretStr):
        return value.get_secret_value()
    return "" if value is None else str(value)
