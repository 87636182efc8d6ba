"""Run the real Supabase CLI against a test database, without Docker and telemetry."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PROGRAM = ROOT / "node_modules" / "@supabase" / "cli-linux-x64" / "bin" / "supabase"
PROJECT = "abcdefghijklmnopqrst"

_QUIET = {
    "SUPABASE_ACCESS_TOKEN": f"sbp_{'0' * 40}",
    "DO_NOT_TRACK": "1",
    "SUPABASE_TELEMETRY_DISABLED": "1",
    "SUPABASE_NO_UPDATE_NOTIFIER": "1",
    "SUPABASE_NO_KEYRING": "1",
}


async def push(url: str, *, seed: bool = False) -> list[str]:
    """Apply our migrations with `supabase db push`; return the names of the applied ones.

    With `seed`, also the file that config.toml names.

    The URL must use TCP and the role postgres: the CLI switches to that role anyway, and it owns
    the objects that the CLI creates.
    """
    options = ["--include-seed"] if seed else []
    answer = await _run("db", "push", "--yes", "--skip-vault", f"--remote={url}", *options)
    return [str(migration) for migration in answer["migrations"]]


async def run_advisors(url: str) -> list[dict[str, Any]]:
    """Return the findings of `supabase db advisors` of all types and levels."""
    answer = await _run(
        *("db", "advisors", "--type", "all", "--level", "info", "--fail-on", "none"),
        f"--remote={url}",
    )
    return list(answer["results"])


async def deploy_functions(api_url: str) -> list[str]:
    """Deploy all functions with `supabase functions deploy`; return their names.

    `api_url` is the URL of a fake management API.
    """
    answer = await _run_hosted(api_url, "functions", "deploy", "--use-api")
    return [str(name) for name in answer["functions"]]


async def set_secret(api_url: str, name: str, value: str) -> None:
    """Set an environment variable of the functions with `supabase secrets set`."""
    await _run_hosted(api_url, "secrets", "set", f"{name}={value}")


async def _run_hosted(api_url: str, *arguments: str) -> dict[str, Any]:
    urls = {"name": "test", "api_url": api_url, "dashboard_url": api_url}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as profile:
        json.dump(urls | {"project_host": "supabase.test"}, profile)
        profile.flush()
        target = f"--remote={PROJECT}", f"--profile={profile.name}"
        return await _run(*arguments, "--yes", *target)


async def _run(*arguments: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "--workdir", ROOT),
            *("--output-format", "json", "--agent", "no", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | _QUIET | {"SUPABASE_HOME": home, "PGSSLMODE": "disable"},
        )
        output, log = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"supabase {' '.join(arguments[:2])} failed: {(output + log).decode()}")
    answer: dict[str, Any] = json.loads(output)
    return answer
