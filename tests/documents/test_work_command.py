"""pagewarden work, as an operator starts it on another machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING

from PIL import Image

from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.documents import readers
    from tests.support import databases

PATIENCE = 60.0


@contextlib.asynccontextmanager
async def started(
    database: databases.Database, files: Path, *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command with the rights of a worker, and end it whatever happens."""
    own = {
        "PAGEWARDEN_DATABASE_URL": database.url("pagewarden_worker"),
        "PAGEWARDEN_FILES": str(files),
        "PAGEWARDEN_HOME": str(files / "home"),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", "work", "--processes", "1", *options,
        env=os.environ | own, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_long_lived_worker_reads_what_comes_until_it_is_stopped(
    desk: readers.Desk, database: databases.Database, tmp_path: Path
) -> None:
    """As pagewarden_worker, which may do nothing else; it ends with 0 and holds nothing."""
    (tmp_path / "scan.pdf").write_bytes(_pdf())
    async with started(database, tmp_path, "--engine", "null", "--lanes", "pdf, image") as process:
        await desk.is_waited_for("pdf")
        document = await desk.factory.queued(lane="pdf", p_new_dropbox_path="scan.pdf")

        async def is_completed() -> bool:
            return bool((await desk.row(document))["ocr_status"] == "completed")

        await polling.wait_until(is_completed, seconds=PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_the_registry_is_read_by_default(
    desk: readers.Desk, database: databases.Database, tmp_path: Path
) -> None:
    """What the extractor put to status 3, image or PDF, comes to status 5 without an option."""
    registry = "select array_agg(status_id) = '{5,5}' from public.extraction_queue"
    for lane, name, content in (("index", "a.png", _png()), ("acte", "b.pdf", _pdf())):
        (tmp_path / name).write_bytes(content)
        document = await desk.factory.awaiting_file(lane=lane)
        await desk.factory.conn.execute(
            "update public.extraction_queue set status_id = 3, dropbox_path = %s where id = %s",
            (f"/{name}", document),
        )

    async def is_read() -> bool:
        return await (await desk.factory.conn.execute(registry)).fetchone() == (True,)

    async with started(database, tmp_path, "--engine", "null"):
        await polling.wait_until(is_read, seconds=PATIENCE)


async def test_a_worker_with_a_budget_ends_by_itself(
    database: databases.Database, tmp_path: Path
) -> None:
    """When the time is up, with nothing to do."""
    async with started(database, tmp_path, "--engine", "null", "--budget", "1") as process:
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_a_lane_that_is_not_there_is_said_in_one_line(
    database: databases.Database, tmp_path: Path
) -> None:
    """The command ends with 1 and names the lanes there are."""
    async with started(database, tmp_path, "--engine", "null", "--lanes", "nope") as process:
        _, complaint = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert "unknown lane 'nope'; choose from" in complaint.decode().splitlines()[-1]


def _png() -> bytes:
    """Draw a white page."""
    out = io.BytesIO()
    Image.new("L", (64, 64), 255).save(out, "PNG")
    return out.getvalue()


def _pdf() -> bytes:
    """Write the smallest PDF with a page."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>",
    ]
    body = b"%PDF-1.4\n"
    for number, content in enumerate(objects, 1):
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    return body + b"trailer << /Root 1 0 R /Size 4 >>\n%%EOF\n"
