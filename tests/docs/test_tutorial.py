"""The tutorial works as it is written: its commands are typed one after another."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import psycopg

from benchmarks import system as systems
from pagewarden.local import server
from tests.support import polling

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
COMMANDS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)

EXPECTED = {
    "upload": "Overview",
    "demo": "",
    "status": "waiting to retry",
    "docs": "quick",
    "dlq list": "damaged",
    "dlq abandon": "abandoned: 1 dead letter",
    "doctor": "",
    "alerts": "stuck-warning",
}


async def _type(system: systems.System, command: str) -> str:
    """Type a command of the tutorial in the folder of the clone."""
    port = system.url.rpartition(":")[2]
    words = {"PAGEWARDEN_HOME": str(system.home), "PAGEWARDEN_LISTEN_PORT": port}
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=ROOT,
        env=os.environ | words | {"COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{command}\n{said.decode()}"
    return said.decode()


_BUSY = "select queued + processing from public.ocr_system_health"


async def _until_quiet(system: systems.System) -> None:
    """Wait until nothing waits any more; asking by the command would keep a core busy."""
    async with (
        server.running(system.home) as local,
        await psycopg.AsyncConnection.connect(local.url(), autocommit=True) as conn,
    ):

        async def is_quiet() -> bool:
            return await (await conn.execute(_BUSY)).fetchone() == (0,)

        await polling.until(is_quiet, seconds=200)


async def test_every_command_of_the_tutorial_does_what_it_says() -> None:
    """From an empty folder to the first dead letter resolved."""
    assert len(COMMANDS) == len(EXPECTED)
    async with systems.running() as system, asyncio.timeout(300):
        for command, (name, word) in zip(COMMANDS, EXPECTED.items(), strict=True):
            assert f"pagewarden {name}" in command
            if name == "docs":
                await _until_quiet(system)
            said = await _type(system, command)
            assert word.lower() in said.lower(), said
