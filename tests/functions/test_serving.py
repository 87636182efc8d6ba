"""python -m pagewarden.functions: a server that is told to stop leaves nothing half done."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from PIL import Image

from benchmarks import system
from pagewarden.database import tables
from pagewarden.ocr.engines import fakes
from tests.database import factories
from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden import database as gateways
    from tests.support import databases

KEY = "sb_secret_that_is_long_enough_for_a_test"


def _page_that_takes_for_ever() -> bytes:
    out = io.BytesIO()
    Image.new("L", (640, 480), fakes.SHADES["hang"]).save(out, "PNG")
    return out.getvalue()


@contextlib.asynccontextmanager
async def _serving(
    database: databases.Database, home: Path
) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.subprocess.Process]]:
    """Run the program, and talk to it as a service."""
    (port,) = system.free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagewarden.functions"),
        env=os.environ
        | {
            "PAGEWARDEN_DATABASE_URL": database.url(),
            "PAGEWARDEN_HOME": str(home),
            "PAGEWARDEN_SUPABASE_KEY": KEY,
            "PAGEWARDEN_JWT_SECRET": house.SECRET,
            "PAGEWARDEN_LISTEN_PORT": str(port),
            "PAGEWARDEN_ENGINE": "fake",
        },
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, headers={"apikey": KEY}, timeout=60) as client:

            async def is_ready() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    return (await client.get("/readyz")).is_success
                return False

            await polling.wait_until(is_ready, seconds=60)
            yield client, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize("name", ["ocr-worker", "ocr-universal"])
async def test_a_server_that_stops_gives_back_what_it_reads(
    database: databases.Database, gateway: gateways.Database, tmp_path: Path, name: str
) -> None:
    """At once and uncounted; whoever called is told."""
    factory = await factories.Factory.of(database)
    await factory.user(admin=True)
    async with _serving(database, tmp_path) as (client, process):
        page = {"file": ("a.png", _page_that_takes_for_ever())}
        (await client.post("/functions/v1/upload-to-dropbox", files=page)).raise_for_status()
        body: dict[str, Any] = {}
        if name == "ocr-universal":
            (claim,) = await gateway.claim_documents(worker_id="w")
            body = {"document_id": claim["id"], "lock_token": claim["lock_token"]}
        calling = asyncio.create_task(client.post(f"/functions/v1/{name}", json=body))

        async def is_being_read() -> bool:
            (row,) = await gateway.select(tables.documents)
            return row["open_run_id"] is not None

        await polling.wait_until(is_being_read)
        process.send_signal(signal.SIGTERM)
        answer = (await calling).json()
        await process.wait()
    assert answer.get("given_back") or answer.get("outcome") == "given_back"
    (document,) = await gateway.select(tables.documents)
    assert (document["ocr_status"], document["attempts"]) == ("queued", 0)
    assert (document["rescues"], document["lock_token"]) == (0, None)
