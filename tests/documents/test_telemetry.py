"""What a worker says and counts: every line names the document, the worker and the attempt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import structlog

from pagewarden import database as gateways
from pagewarden import documents, errors
from pagewarden.database import tables
from pagewarden.telemetry import metrics
from tests.documents import readers
from tests.support import lines, polling

if TYPE_CHECKING:
    from tests.support import databases


def _counted(name: str, **labels: str) -> float:
    return metrics.current().registry.get_sample_value(name, labels) or 0


async def test_every_line_about_a_document_says_which_who_and_which_attempt(
    desk: readers.Desk,
) -> None:
    """Of a reading that went wrong, and of the next one, which did not."""
    document = await desk.factory.queued()
    with lines.capture_lines() as found:
        assert await desk.drain(readers.Recorder([ValueError("what is this?")])) == {"failed": 1}
        await desk.factory.conn.execute("update documents set retry_at = now()")
        assert await desk.drain(readers.Recorder()) == {"completed": 1}
    about = [line for line in found if line["event"] != "document_claimed"]
    assert [line["event"] for line in about] == ["reading_failed", "document_completed"]
    for line, attempt in zip(about, (1, 2), strict=True):
        assert (line["document"], line["worker"]) == (str(document), "worker-1")
        assert (line["attempt"], line["lane"]) == (attempt, "image")
    failed, completed = about
    # It is no error of ours, so somebody will want to know where it came from.
    assert isinstance(failed["exc_info"], ValueError)
    assert (completed["pages"], completed["engine"]) == (1, "recorder")
    assert "document" not in structlog.contextvars.get_contextvars()


async def test_a_line_about_a_picture_names_its_check_job(desk: readers.Desk) -> None:
    """So that everything about a job can be found."""
    job = await desk.factory.check_job(["a.png"])
    with lines.capture_lines() as found:
        await desk.drain(readers.Recorder([ValueError("what is this?")]), lanes=["check"])
    assert {line["job"] for line in found if "document" in line} == {str(job)}
    assert "job" not in structlog.contextvars.get_contextvars()


async def test_attempts_are_counted_by_how_they_end(desk: readers.Desk) -> None:
    """With their pages; what was claimed, what is in hand, how long it took."""
    names = {
        "claims": ("pagewarden_claims_total", {"lane": "image"}),
        "completed": ("pagewarden_documents_total", {"lane": "image", "outcome": "completed"}),
        "failed": ("pagewarden_documents_total", {"lane": "image", "outcome": "failed"}),
        "given_back": ("pagewarden_documents_total", {"lane": "image", "outcome": "given_back"}),
        "read": ("pagewarden_pages_total", {"lane": "image", "status": "read"}),
        "seconds": ("pagewarden_document_seconds_count", {"lane": "image"}),
    }
    before = {key: _counted(name, **labels) for key, (name, labels) in names.items()}
    pages = [documents.Page(number, text="text") for number in (1, 2)]
    for reader in (
        readers.Recorder(pages),
        readers.Recorder([ValueError("what is this?")]),
        readers.Recorder([errors.EngineUnavailable("nobody is there")]),
    ):
        await desk.factory.queued()
        await desk.drain(reader, budget_seconds=readers.LONG)
    after = {key: _counted(name, **labels) for key, (name, labels) in names.items()}
    assert {key: after[key] - before[key] for key in names} == {
        "claims": 3, "completed": 1, "failed": 1, "given_back": 1, "read": 2, "seconds": 3,
    }  # fmt: skip
    assert _counted("pagewarden_documents_in_hand", lane="image") == 0


async def test_heartbeats_and_lost_locks_are_counted(desk: readers.Desk) -> None:
    """Somebody cancels what is being read: that is said, and not called a failure."""
    document, reader = await desk.factory.queued(), readers.Recorder(stuck=True)
    lost = _counted("pagewarden_lock_losses_total", lane="image")
    beats = _counted("pagewarden_heartbeats_total")
    with lines.capture_lines() as found:
        async with readers.at_work(desk.worker(reader, heartbeat_seconds=0.01)):
            await reader.next()
            await polling.wait_until(lambda: _counted("pagewarden_heartbeats_total") > beats + 1)
            assert _counted("pagewarden_documents_in_hand", lane="image") == 1
            await desk.factory.call("cancel_document", p_document_id=document)
            await polling.wait_until(
                lambda: _counted("pagewarden_lock_losses_total", lane="image") == lost + 1
            )
    (line,) = [line for line in found if line["event"] == "lock_lost"]
    assert (line["document"], line["worker"]) == (str(document), "worker-1")


async def test_a_connection_that_was_lost_and_opened_again_is_counted(
    database: databases.Database,
) -> None:
    """Whether a call noticed, or the goodbye was heard before it."""
    async with await gateways.connect_direct(database.url()) as link:
        before = _counted("pagewarden_database_reconnects_total")

        async def is_there() -> bool:
            with contextlib.suppress(errors.DatabaseUnavailable):
                return bool(await link.select(tables.lanes, limit=1))
            return False

        assert await is_there()
        assert _counted("pagewarden_database_reconnects_total") == before
        async with database.refuse_connections():
            pass
        await polling.wait_until(is_there)
        assert _counted("pagewarden_database_reconnects_total") == before + 1
