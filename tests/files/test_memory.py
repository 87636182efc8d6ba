"""Large files pass through a store without filling the memory."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pydantic

from tests.files import streamer

if TYPE_CHECKING:
    from tests.files import places


async def test_memory_does_not_grow_with_the_file(place: places.Place) -> None:
    """In a process of its own; the slower a store answers, the more blocks are under way."""
    given = {name: _shown(value) for name, value in place.settings if _belongs(name)}
    environment = {f"PAGEWARDEN_{name.upper()}": value for name, value in given.items() if value}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.files.streamer"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await program.communicate()

    first, second = map(int, said.split())
    assert program.returncode == 0
    grown = (streamer.LARGE - streamer.SMALL) * 1024
    assert second - first < grown / 2


def _belongs(name: str) -> bool:
    return name.startswith(("files", "dropbox", "s3"))


def _shown(value: object) -> str:
    if isinstance(value, pydantic.SecretStr):
        return value.get_secret_value()
    return "" if value is None else str(value)
