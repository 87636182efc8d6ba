"""The tutorial works: its commands are run one after another."""

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
    "docs": "letter.png",
    "dlq list": "damaged",
    "dlq abandon": "abandoned: 1 dead letter",
    "doctor": "",
    "alerts": "stuck-warning",
}


async def _run_command(system: systems.System, command: str) -> str:
    """Run a command of the tutorial in the folder of the clone."""
    port = system.url.rpartition(":")[2]
    variables = {"PAGEWARDEN_HOME": str(system.home), "PAGEWARDEN_LISTEN_PORT": port}
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=ROOT,
        env=os.environ | variables | {"COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{command}\n{output.decode()}"
    return output.decode()


_BUSY = "select queued + processing from public.ocr_system_health"


async def _wait_until_idle(system: systems.System) -> None:
    """Wait until no document is queued; polling with the command would keep a core busy."""
    async with (
        server.open_server(system.home) as local,
        await psycopg.AsyncConnection.connect(local.url(), autocommit=True) as conn,
    ):

        async def is_idle() -> bool:
            return await (await conn.execute(_BUSY)).fetchone() == (0,)

        await polling.wait_until(is_idle, seconds=200)


async def test_commands_of_the_tutorial_work() -> None:
    """The tutorial leads from an empty folder to the first resolved dead letter."""
    assert len(COMMANDS) == len(EXPECTED)
    async with systems.open_system() as system, asyncio.timeout(300):
        for command, (name, word) in zip(COMMANDS, EXPECTED.items(), strict=True):
            assert f"pagewarden {name}" in command
            if name == "docs":
                await _wait_until_idle(system)
            output = await _run_command(system, command)
            assert word.lower() in output.lower(), output
