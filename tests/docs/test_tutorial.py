"""The tutorial works as it is written: its commands are typed one after another."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path

from pagewarden.bench import system as systems
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


async def _is_quiet(system: systems.System) -> bool:
    """Tell whether nothing waits any more, as the reader sees."""
    said = await _type(system, f"{sys.executable} -m pagewarden.cli status --json")
    health = json.loads(said)["health"]
    return not health["queued"] + health["processing"]


async def test_every_command_of_the_tutorial_does_what_it_says() -> None:
    """From an empty folder to the first dead letter resolved."""
    assert len(COMMANDS) == len(EXPECTED)
    async with systems.running() as system, asyncio.timeout(300):
        for command, (name, word) in zip(COMMANDS, EXPECTED.items(), strict=True):
            assert f"pagewarden {name}" in command
            if name == "docs":
                await polling.until(lambda: _is_quiet(system), seconds=200)
            said = await _type(system, command)
            assert word.lower() in said.lower(), said
