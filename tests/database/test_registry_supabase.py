"""The statements of the registry's first system, sent by supabase-py through a PostgREST."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from postgrest.exceptions import APIError

import supabase
from tests.support import lite as lites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases


@pytest.fixture
async def client(database: databases.Database) -> AsyncIterator[supabase.AsyncClient]:
    """Connect as service role, as the registry's programs do."""
    if not lites.is_installed():
        pytest.skip("@supabase/lite is not installed; make test installs it")
    async with (
        lites.run_lite(database.tcp_url("authenticator")) as lite,
        httpx.AsyncClient(timeout=20) as session,
    ):
        options = supabase.AsyncClientOptions(httpx_client=session, auto_refresh_token=False)
        yield await supabase.acreate_client(lite.url, lite.key, options)


def _queue(client: supabase.AsyncClient) -> Any:
    return client.table("extraction_queue")


async def _insert(client: supabase.AsyncClient, source: str, count: int) -> list[str]:
    """Have an extractor fetch so many documents."""
    found = []
    for number in range(count):
        row = {"document_source": source, "document_name": f"{source} {number}"}
        (inserted,) = (await _queue(client).insert(row).execute()).data
        begin = {"status_id": 2, "worker_id": "extractor-1"}
        await _queue(client).update(begin).eq("id", inserted["id"]).eq("status_id", 1).execute()
        deliver = {"status_id": 3, "dropbox_path": f"/registry/{source}-{number}.pdf"}
        update = _queue(client).update(deliver).eq("id", inserted["id"])
        await update.eq("worker_id", "extractor-1").eq("status_id", 2).execute()
        found.append(inserted["id"])
    return found


async def _count(client: supabase.AsyncClient, source: str) -> int | None:
    query = _queue(client).select("id", count="exact").eq("status_id", 3)
    count: int | None = (await query.eq("document_source", source).execute()).count
    return count


async def _next_job(
    client: supabase.AsyncClient, worker: str, source: str = "acte"
) -> dict[str, Any] | None:
    """Take a job as a generic worker does, statement for statement."""
    query = (
        _queue(client)
        .update({"status_id": 2, "worker_id": worker})
        .eq("status_id", 3)
        .eq("document_source", source)
        .is_("worker_id", "null")
        .order("created_at", desc=False)
        .limit(1)
        .select("*")
        .single()
    )
    try:
        job: dict[str, Any] = (await query.execute()).data
    except APIError as exc:
        if exc.code != "PGRST116":  # no row, which supabase-js returns as null
            raise
        return None
    return job


async def test_workers_of_the_pool_count_claim_and_finish(client: supabase.AsyncClient) -> None:
    """The queue is counted by type; each worker gets another document until there are none."""
    actes = await _insert(client, "acte", 3)
    await _insert(client, "index", 1)
    assert [await _count(client, source) for source in ("acte", "index")] == [3, 1]
    jobs = await asyncio.gather(*(_next_job(client, f"worker-{n}") for n in range(3)))
    taken = [job for job in jobs if job is not None]
    while len(taken) < 3:  # two met at one document
        job = await _next_job(client, "worker-again")
        assert job is not None
        taken.append(job)
    assert {job["id"] for job in taken} == set(actes)
    assert {(job["status_id"], job["worker_id"]) for job in taken} == {(4, None)}
    assert await _next_job(client, "worker-3") is None
    assert await _count(client, "index") == 1
    for job in taken:
        result = {"status_id": 5, "ocr_text": "Acte de vente", "ocr_confidence": 0.9}
        (done,) = (await _queue(client).update(result).eq("id", job["id"]).execute()).data
        assert (done["status_id"], done["ocr_text"]) == (5, "Acte de vente")


async def test_a_worker_polls_claims_fails_and_finishes(client: supabase.AsyncClient) -> None:
    """The multi-worker flow: poll, conditional claim, ocr_error, reset, active workers."""
    (document,) = await _insert(client, "index", 1)
    polled = (await _queue(client).select("*").eq("status_id", 3).execute()).data
    assert [row["id"] for row in polled] == [document]

    def claim(worker: str) -> Any:
        values = {
            "status_id": 4,
            "ocr_worker_id": worker,
            "ocr_started_at": "now()",
            "ocr_attempts": polled[0]["ocr_attempts"] + 1,
        }
        return _queue(client).update(values).eq("id", document).eq("status_id", 3).execute()

    answers = await asyncio.gather(claim("worker-1"), claim("worker-2"))
    won = [row for answer in answers for row in answer.data]
    assert len(won) == 1
    active = "ocr_worker_id, ocr_started_at"
    working = (await _queue(client).select(active).eq("status_id", 4).execute()).data
    assert [row["ocr_worker_id"] for row in working] == [won[0]["ocr_worker_id"]]
    stale = (
        await _queue(client).select("id").eq("status_id", 4).lt("ocr_started_at", "now").execute()
    )
    reset = {"status_id": 3, "ocr_worker_id": None}
    ids = [row["id"] for row in stale.data]
    (back,) = (await _queue(client).update(reset).in_("id", ids).execute()).data
    assert (back["status_id"], back["ocr_attempts"]) == (3, 1)
    (again,) = (await claim("worker-2")).data

    failure = {"status_id": 3, "ocr_error": "OCR processing failed: API rate limit"}
    with pytest.raises(APIError) as refused:
        await _queue(client).update(failure).eq("id", document).execute()
    assert (refused.value.code, "claim_token" in str(refused.value.hint)) == ("22023", True)
    late = failure | {"claim_token": won[0]["lock_token"]}
    assert (await _queue(client).update(late).eq("id", document).execute()).data == []
    mine = failure | {"claim_token": again["lock_token"]}
    (failed,) = (await _queue(client).update(mine).eq("id", document).execute()).data
    assert (failed["status_id"], failed["error_message"]) == (3, None)
    assert failed["ocr_error"] == "OCR processing failed: API rate limit"

    (last,) = (await claim("worker-3")).data
    with pytest.raises(APIError) as refused:
        await _queue(client).update({"status_id": 5}).eq("id", document).execute()
    assert "ocr_text" in str(refused.value.hint)
    result = {"status_id": 5, "ocr_text": "Index", "claim_token": last["lock_token"]}
    (done,) = (await _queue(client).update(result).eq("id", document).execute()).data
    assert (done["status_id"], done["claim_token"], done["ocr_attempts"]) == (5, None, 3)


async def test_senseless_requests_are_refused(client: supabase.AsyncClient) -> None:
    """The error says what to do instead."""
    for row in ({"document_source": "nope"}, {"document_source": "acte", "status_id": 9}):
        with pytest.raises(APIError) as refused:
            await _queue(client).insert(row | {"document_name": "a"}).execute()
        assert (refused.value.code, bool(refused.value.hint)) == ("22023", True)
    assert await _next_job(client, "worker-1", "nope") is None
