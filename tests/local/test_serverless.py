"""`pagewarden up --serverless`: functions alone read everything, called by schedule and events."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from benchmarks import system
from pagewarden import database as gateways
from pagewarden import registry
from pagewarden.database import tables
from pagewarden.local import cluster, server
from tests.ocr import samples
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from pagewarden.database import rows

SECRET = "the-secret-of-a-database-webhook-of-this-test"
COMMAND = (sys.executable, "-m", "pagewarden", "up", "--serverless")
RPCS = ("acquire_document_lock", "process_ocr_atomic", "move_to_dead_letter_queue")
SECONDS = 120.0
FIRST_LINE = samples.PROSE[0]
PDF = samples.make_text_pdf(samples.PROSE)


@dataclass(frozen=True, slots=True)
class Serverless:
    """A running system without workers, its public interfaces, and its superuser."""

    system: system.System
    client: httpx.AsyncClient
    database: gateways.Database
    superuser: psycopg.AsyncConnection

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file, and return the id of its document."""
        response = await self.client.post("upload-to-dropbox", files={"file": (name, content)})
        assert response.status_code == 202, response.text
        document_id: str = response.json()["document_id"]
        return document_id

    async def wait_for_text(self, document_id: str) -> str:
        """Wait until a document is read, and return its text."""
        await self.wait_for_status(document_id, "completed")
        return (await self.client.get(f"documents/{document_id}/export?format=txt")).text

    async def wait_for_status(self, document_id: str, status: str) -> None:
        """Wait until a document has this status."""

        async def has_status() -> bool:
            response = await self.client.get(f"documents/{document_id}")
            return bool(response.json()["ocr_status"] == status)

        await polling.wait_until(has_status, seconds=SECONDS)

    async def send_event(self, document_id: str) -> dict[str, Any]:
        """Call ocr-worker as the Database Webhook of an insert does, and return the answer."""
        cursor = await self.superuser.execute(
            "select to_jsonb(d) from public.documents as d where id = %s", (document_id,)
        )
        ((record,),) = await cursor.fetchall()
        event = {
            "type": "INSERT",
            "table": "documents",
            "schema": "public",
            "record": record,
            "old_record": None,
        }
        response = await self.client.post(
            "ocr-worker",
            content=json.dumps(event),
            headers={"x-webhook-secret": SECRET, "content-type": "application/json", "apikey": ""},
        )
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def change_function(self, name: str, **values: object) -> None:
        """Change the row of a function in its configuration."""
        await self.database.update(
            tables.edge_function_config, values, where={"function_name": name}
        )

    async def list_runs(self) -> dict[str, list[rows.FunctionRun]]:
        """Return the runs of each function that has been called."""
        functions = await self.database.list_functions()
        return {row["function_name"]: row["runs"] for row in functions if row["runs"]}

    async def count_calls(self) -> dict[str, int]:
        """Return how often the database has executed each RPC, as it recorded itself."""
        cursor = await self.superuser.execute(
            "select funcname, sum(calls)::integer from pg_stat_user_functions "
            "where schemaname = 'public' and funcname = any (%s) group by funcname",
            (list(RPCS),),
        )
        return dict(await cursor.fetchall())


@pytest.fixture(scope="module")
async def serverless() -> AsyncIterator[Serverless]:
    """Start the system as a user does, with a fast engine, and count calls in its database."""
    with system.prepare(
        engine="tesseract", gpu_engine="tesseract", database_webhook_secret=SECRET
    ) as installation:
        async with (
            system.open_installation(installation, COMMAND) as running,
            server.open_server(installation.home) as local,
            await gateways.connect_direct(local.url()) as database,
            await psycopg.AsyncConnection.connect(
                local.url(cluster.SUPERUSER), autocommit=True
            ) as superuser,
            running.client() as client,
        ):
            await superuser.execute("alter system set track_functions = 'pl'")
            await superuser.execute("select pg_reload_conf()")
            yield Serverless(running, client, database, superuser)


def _png(*, ink: int = 0) -> bytes:
    file = io.BytesIO()
    samples.drawn(ink=ink).save(file, "PNG")
    return file.getvalue()


async def test_functions_alone_read_everything(serverless: Serverless) -> None:
    """Uploads, the registry, a check job and a webhook's document, with no worker."""
    output = "\n".join(serverless.system.output)
    assert "no worker runs; schedule and events call the functions" in output
    for part in ("worker", "volumes"):
        with pytest.raises(LookupError):
            serverless.system.part(part)

    # These are read because a notification calls ocr-worker or pdf-worker.
    for name in ("ocr-worker", "pdf-worker"):
        await serverless.change_function(name, schedule=None)
    image = await serverless.upload("scan.png", _png())
    pdf = await serverless.upload("letter.pdf", PDF)
    deed = await _extract(serverless)
    job = await _submit_check(serverless)
    assert FIRST_LINE in await serverless.wait_for_text(image)
    assert FIRST_LINE in await serverless.wait_for_text(pdf)
    await _wait_until_extracted(serverless, deed)
    assert await _wait_for_check(serverless, job) == "SUCCEEDED"

    # From here on, only Database Webhooks have images read.
    await serverless.change_function("ocr-worker", lanes=[])
    assert FIRST_LINE in await serverless.wait_for_text(await _read_by_event(serverless))
    damaged = await serverless.upload("damaged.png", _png()[:2000])
    await serverless.send_event(damaged)
    await serverless.wait_for_status(damaged, "dead_letter")

    async def all_are_counted() -> bool:
        return set(await serverless.count_calls()) == set(RPCS)

    await polling.wait_until(all_are_counted, seconds=SECONDS)  # reported after some seconds
    called = {"ocr-worker", "pdf-worker", "ocr-universal", "pdf-extract", "webhooks"}

    async def all_have_run() -> bool:
        return called <= set(await serverless.list_runs())

    await polling.wait_until(all_have_run, seconds=SECONDS)  # webhooks: every ten seconds


async def _read_by_event(serverless: Serverless) -> str:
    """Have an image read by its event; a call that was already due may read the first."""
    for ink in (40, 50):
        document_id = await serverless.upload(f"{ink}.png", _png(ink=ink))
        answer = await serverless.send_event(document_id)
        if answer["ignored"] is None:
            break
        await serverless.wait_for_text(document_id)
    assert answer["completed"] == 1
    return document_id


async def _extract(serverless: Serverless) -> str:
    """Put a deed into the registry as an extractor does, and return its id."""
    extractor = registry.Registry(serverless.database, "extractor-1")
    entry = await extractor.enqueue("acte", "acte 1874-23")
    assert await extractor.begin(entry.id)
    file = serverless.system.home / "files" / "registry" / "1874-23.pdf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(PDF)
    assert await extractor.attach(entry.id, "registry/1874-23.pdf")
    return entry.id


async def _wait_until_extracted(serverless: Serverless, document_id: str) -> None:
    extractor = registry.Registry(serverless.database, "extractor-1")

    async def is_extracted() -> bool:
        entry = await extractor.get(document_id)
        return entry is not None and entry.status is registry.RegistryStatus.EXTRACTION_COMPLETE

    await polling.wait_until(is_extracted, seconds=SECONDS)
    (page,) = await extractor.get_pages(document_id)
    assert FIRST_LINE in page


async def _submit_check(serverless: Serverless) -> str:
    response = await serverless.client.post(
        "jobs", data={"language": "en"}, files=[("images", ("screen.png", _png()))]
    )
    assert response.status_code == 202, response.text
    job_id: str = response.json()["jobId"]
    return job_id


async def _wait_for_check(serverless: Serverless, job_id: str) -> str:
    """Wait until a check job has ended, and return its status."""

    async def get_status() -> str:
        status: str = (await serverless.client.get(f"jobs/{job_id}")).json()["status"]
        return status

    async def has_ended() -> bool:
        return await get_status() not in {"PENDING", "PROCESSING"}

    await polling.wait_until(has_ended, seconds=SECONDS)
    return await get_status()
