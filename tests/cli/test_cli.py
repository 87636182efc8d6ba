"""The command as a person types it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer import testing

from benchmarks import system
from pagewarden import cli

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PATIENCE = 60


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder that no server has used before; not pytest's, which is closed to other accounts."""
    folder = Path(tempfile.mkdtemp(prefix="pagewarden-cli-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def free_ports() -> dict[str, str]:
    """Choose ports that nobody uses, and an engine that is loaded at once."""
    port, gpu_port = system.free_ports(2)
    return {
        "PAGEWARDEN_LISTEN_PORT": str(port),
        "PAGEWARDEN_GPU_SERVICE_URL": f"http://127.0.0.1:{gpu_port}",
        "PAGEWARDEN_ENGINE": "null",
        "PAGEWARDEN_GPU_ENGINE": "null",
    }


@contextlib.asynccontextmanager
async def started(
    home: Path, *words: str, **settings: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command, and see to it that it ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", *words,
        env=os.environ | {"PAGEWARDEN_HOME": str(home), "COLUMNS": "200"} | settings,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def typed(home: Path, *words: str, **settings: str) -> tuple[int | None, str, str]:
    """Type a command and wait for its end."""
    async with started(home, *words, **settings) as process:
        said, complained = await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode, said.decode(), complained.decode()


async def said(process: asyncio.subprocess.Process, text: str) -> None:
    """Wait until the command has said this."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while text not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended without saying {text!r}"


async def test_the_command_from_a_new_folder_to_a_running_system(
    home: Path, free_ports: dict[str, str]
) -> None:
    """Doctor says what is missing, up mends it, and Ctrl-C stops everything."""
    code, out, _ = await typed(home, "doctor")
    assert code == 1
    assert 'run "pagewarden migrate"' in out

    async with started(home, "up", **free_ports) as process:
        await said(process, "first administrator: admin@pagewarden.local")
        await said(process, "Pagewarden is up")
        code, out, _ = await typed(home, "status", "--json")
        assert code == 0
        assert json.loads(out)["health"]["queued"] == 0

        code, _, complaint = await typed(home, "up", **free_ports)
        assert code == 1
        assert "PAGEWARDEN_LISTEN_PORT" in complaint

        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), PATIENCE)
        assert process.returncode == 0
    assert not await asyncio.to_thread(lambda: list(home.glob("**/postmaster.pid")))

    code, out, _ = await typed(home, "doctor")
    assert (code, "✗" in out) == (0, False)
    assert "up to date" in (await typed(home, "migrate"))[1]


async def test_an_unknown_setting_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo in a setting is an error of one line that lists the right names."""
    monkeypatch.setenv("PAGEWARDEN_HOEM", "x")
    code, _, complained = await typed(home, "status")
    assert code == 1
    assert "unknown setting PAGEWARDEN_HOEM" in complained
    assert "Traceback" not in complained


@pytest.mark.parametrize("words", [[], ["up"], ["migrate"], ["status"], ["doctor"]])
def test_every_command_explains_itself(words: list[str]) -> None:
    """--help works everywhere and says more than the usage."""
    result = testing.CliRunner().invoke(cli.app, [*words, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert len(result.output.splitlines()) > 5
