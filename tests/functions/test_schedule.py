"""pagewarden schedule: what pg_cron does, where there is none."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.functions import house
from tests.relay import upstream as upstreams
from tests.support import polling, serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support import databases

KEY = "sb_secret_that_is_long_enough_for_a_test"


@pytest.mark.parametrize(
    ("options", "readers"),
    [([], []), (["--serverless"], ["ocr-worker", "pdf-worker"])],
    ids=["workers", "serverless"],
)
async def test_functions_are_called_when_they_are_due_until_it_is_told_to_stop(
    database: databases.Database, tmp_path: Path, options: list[str], readers: list[str]
) -> None:
    """With the secret key, at the given URL; at its start it wakes all that events wake."""
    connection = await database.connect()
    # The others have none, or one of them could become due while this runs.
    await connection.execute(
        "update edge_function_config set schedule = "
        "case function_name when 'retention' then '1 seconds' end"
    )
    paths = {f"/functions/v1/{name}" for name in ("retention", "volume-orchestrator", *readers)}
    server = upstreams.Upstream()
    async with serving.serve_app(server) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pagewarden", "schedule", *options, url),
            env=os.environ
            | {
                "PAGEWARDEN_DATABASE_URL": database.url(),
                "PAGEWARDEN_HOME": str(tmp_path),
                "PAGEWARDEN_SUPABASE_KEY": KEY,
                "PAGEWARDEN_JWT_SECRET": house.SECRET,
            },
        )
        try:
            await polling.wait_until(lambda: {each.target for each in server.requests} >= paths)
        finally:
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
    assert code == 0
    assert {request.target for request in server.requests} == paths
    assert {request.header("apikey") for request in server.requests} == {KEY}
