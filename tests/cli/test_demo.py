"""pagewarden demo, as a person types it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.database import tables

if TYPE_CHECKING:
    from tests.client.desk import Desk


async def test_the_samples_come_in_once(desk: Desk) -> None:
    """Most are queued and one waits for routing; a second time nothing is new."""
    await desk.sign_in()
    first, second = await desk.typed("demo"), await desk.typed("demo")

    assert (first.code, second.code) == (0, 0), first.err
    assert "6 sample documents" in second.err
    (job,) = await desk.house.used.database.select(tables.check_jobs)
    assert f"/checks/{job['id']}" in second.err
    documents = [row for row in await desk.house.documents() if row["case_id"] != job["id"]]
    statuses = sorted(row["ocr_status"] for row in documents)
    assert statuses == ["pending", "queued", "queued", "queued", "queued_for_pdf", "queued_for_pdf"]
