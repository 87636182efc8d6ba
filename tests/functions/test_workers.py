"""The functions that read: what waits, or one document that is claimed."""

from __future__ import annotations

import asyncio
import io
import uuid
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pagewarden import documents
from pagewarden.database import tables
from pagewarden.functions.http import document_workers
from tests.documents import readers
from tests.functions import house
from tests.storage import stores

if TYPE_CHECKING:
    from tests.functions.house import House


def white_png() -> bytes:
    """Draw nothing, large enough to be a page."""
    out = io.BytesIO()
    Image.new("L", (640, 480), 255).save(out, "PNG")
    return out.getvalue()


async def test_an_upload_becomes_text_with_a_call_of_the_worker_of_its_lane(
    reading_functions: House,
) -> None:
    """Image and PDF are fetched from the store, read in the sandbox, saved and completed."""
    functions = reading_functions
    user = await functions.factory.user()
    await functions.upload(user, white_png(), "photo.png")
    await functions.upload(user, house.READABLE_PDF, "letter.pdf")
    for name in ("ocr-worker", "pdf-worker"):
        answer = await functions.serve(name)
        assert (answer.status_code, answer.json()["completed"]) == (200, 1), answer.text
    rows = await functions.used.database.select(tables.ocr_pages, order="document_id,page_number")
    assert sorted(row["text"].split()[0] for row in rows) == ["640x480", "The", "The"]
    assert {row["ocr_status"] for row in await functions.documents()} == {"completed"}


@pytest.mark.parametrize(
    ("lane", "content"), [("index", white_png()), ("acte", house.READABLE_PDF)]
)
async def test_the_registry_is_read_by_the_function_that_its_lane_wakes(
    reading_functions: House, lane: str, content: bytes
) -> None:
    """Image or PDF: what the extractor put to status 3 comes to status 5."""
    functions, conn = reading_functions, reading_functions.factory.conn
    await functions.used.store.write("registry/1874-23", stores.chunks_of(content))
    document = await functions.factory.awaiting_file(lane=lane)
    await conn.execute(
        "update public.extraction_queue set status_id = 3, dropbox_path = 'registry/1874-23'"
        " where id = %s",
        (document,),
    )
    woken = await conn.execute(
        "select function_name from edge_function_config where %s = any (lanes)", (lane,)
    )
    assert await woken.fetchall() == [("ocr-worker",)]
    await functions.serve("ocr-worker")
    status = await conn.execute("select status_id from public.extraction_queue")
    assert await status.fetchall() == [(5,)]


async def test_a_worker_reads_only_its_own_lane(functions: House) -> None:
    """The PDF is left to pdf-worker."""
    user = await functions.factory.user()
    await functions.upload(user, house.PDF, "letter.pdf")
    assert (await functions.serve("ocr-worker")).json()["completed"] == 0
    assert (await functions.serve("pdf-worker", json={"lanes": ["pdf"]})).json()["completed"] == 1


@pytest.mark.parametrize("recorder", [readers.Recorder(stuck=True)])
async def test_a_second_call_while_the_first_is_at_work_returns_at_once(
    functions: House, recorder: readers.Recorder
) -> None:
    """Schedules and hints may call as often as they like."""
    await functions.upload(await functions.factory.user(), house.PNG)
    first = asyncio.create_task(functions.serve("ocr-worker", json={"budget_seconds": 1}))
    await recorder.next()
    second = (await functions.serve("ocr-worker")).json()
    assert {name: value for name, value in second.items() if value} == {"busy": True}
    # When its time is up, the first gives back what it could not finish, uncounted.
    assert (await first).json()["given_back"] == 1
    (document,) = await functions.documents()
    assert (document["ocr_status"], document["attempts"]) == ("queued", 0)


@pytest.mark.parametrize(
    ("name", "content"), [("ocr-universal", house.PNG), ("pdf-extract", house.PDF)]
)
async def test_a_claimed_document_is_read_and_completed(
    functions: House, name: str, content: bytes
) -> None:
    """Whoever claimed it hands over its id and token."""
    await functions.upload(await functions.factory.user(), content)
    (claim,) = await functions.used.database.claim_documents(worker_id="w")
    held = {"document_id": claim["id"], "lock_token": claim["lock_token"]}
    answer = await functions.serve(name, json=held)
    assert answer.json() == {"document_id": claim["id"], "outcome": "completed"}
    # The token is used up.
    again = await functions.serve(name, json=held)
    assert (again.status_code, again.json()["error"]) == (409, "LOCK_LOST")


@pytest.mark.parametrize("recorder", [readers.Recorder(stuck=True)])
async def test_a_second_invocation_with_the_same_token_is_refused(
    functions: House, recorder: readers.Recorder
) -> None:
    """A retry of a gateway must not read the document twice at once."""
    await functions.upload(await functions.factory.user(), house.PNG)
    (claim,) = await functions.used.database.claim_documents(worker_id="w")
    held = {"document_id": claim["id"], "lock_token": claim["lock_token"]}
    first = asyncio.create_task(functions.serve("ocr-universal", json=held))
    await recorder.next()
    second = await functions.serve("ocr-universal", json=held)
    assert (second.status_code, second.json()["error"]) == (409, "ALREADY_BEGUN")
    functions.used.stopping.set()
    assert (await first).json()["outcome"] == "given_back"
    assert recorder.asked.empty()


async def test_a_claimed_document_of_another_lane_is_refused_and_stays_claimed(
    functions: House,
) -> None:
    """A PDF is nothing for ocr-universal."""
    await functions.upload(await functions.factory.user(), house.PDF)
    (claim,) = await functions.used.database.claim_documents(worker_id="w")
    held = {"document_id": claim["id"], "lock_token": claim["lock_token"]}
    answer = await functions.serve("ocr-universal", json=held)
    assert (answer.status_code, answer.json()["error"]) == (409, "WRONG_LANE")
    (document,) = await functions.documents()
    assert document["lock_token"] == claim["lock_token"]


@pytest.mark.parametrize(
    ("name", "content"), [("ocr-universal", house.PNG), ("pdf-extract", house.PDF)]
)
async def test_a_document_is_read_by_its_id_alone(
    functions: House, name: str, content: bytes
) -> None:
    """The function claims it itself, and refuses what another worker holds or has read."""
    await functions.upload(await functions.factory.user(), content)
    (document,) = await functions.documents()
    answer = await functions.serve(name, json={"document_id": document["id"]})
    assert answer.json() == {"document_id": document["id"], "outcome": "completed"}
    (document,) = await functions.documents()
    assert (document["ocr_status"], document["attempts"]) == ("completed", 1)
    again = await functions.serve(name, json={"document_id": document["id"]})
    assert (again.status_code, again.json()["error"]) == (409, "WRONG_STATE")


async def test_an_id_that_is_unknown_held_or_of_another_lane_is_refused(
    functions: House, recorder: readers.Recorder
) -> None:
    """Each with its own reason, and nothing is claimed."""
    user = await functions.factory.user()
    await functions.upload(user, house.PDF, "letter.pdf")
    await functions.upload(user, house.PNG)
    await functions.used.database.claim_documents(worker_id="w", lanes=["image"])
    pdf, held = await functions.documents()
    for document, status, error in (
        (str(uuid.uuid4()), 404, "DOCUMENT_NOT_FOUND"),
        (pdf["id"], 409, "WRONG_LANE"),
        (held["id"], 409, "DOCUMENT_LOCKED"),
    ):
        answer = await functions.serve("ocr-universal", json={"document_id": document})
        assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert recorder.asked.empty()
    assert [row["attempts"] for row in await functions.documents()] == [0, 1]


async def test_a_disabled_function_is_obeyed_in_the_process_too(
    functions: House, recorder: readers.Recorder
) -> None:
    """Its lanes are not claimed, by any worker."""
    await functions.upload(await functions.factory.user(), house.PNG)
    await functions.factory.conn.execute(
        "update edge_function_config set enabled = false where function_name = 'ocr-universal'"
    )
    assert (await functions.serve("ocr-worker")).json()["completed"] == 0
    (document,) = await functions.documents()
    answer = await functions.factory.call(
        "acquire_document_lock_v7", p_document_id=document["id"], p_worker_id="w"
    )
    assert answer["error"] == "LANE_PAUSED"
    assert recorder.asked.empty()
    await functions.factory.conn.execute("update edge_function_config set enabled = true")
    assert (await functions.serve("ocr-worker")).json()["completed"] == 1


async def test_a_forged_lock_token_reads_nothing(
    functions: House, recorder: readers.Recorder
) -> None:
    """The document is not even looked at."""
    await functions.upload(await functions.factory.user(), house.PNG)
    (document,) = await functions.documents()
    held = {"document_id": document["id"], "lock_token": str(uuid.uuid4())}
    assert (await functions.serve("ocr-universal", json=held)).status_code == 409
    assert recorder.asked.empty()


@pytest.mark.parametrize(
    "recorder", [readers.Recorder(pages=[documents.Page(1), ValueError("what is this?")])]
)
async def test_a_reading_that_fails_is_counted_and_answered_as_such(functions: House) -> None:
    """The call itself went well; the document waits for its next attempt."""
    await functions.upload(await functions.factory.user(), house.PNG)
    answer = await functions.serve("ocr-worker")
    assert (answer.status_code, answer.json()["failed"]) == (200, 1)
    (document,) = await functions.documents()
    assert (document["attempts"], document["ocr_error"]) == (1, "what is this?")


async def test_stale_monitor_gives_back_what_a_dead_worker_held(functions: House) -> None:
    """It tells how many there were."""
    await functions.upload(await functions.factory.user(), house.PNG)
    await functions.used.database.claim_documents(worker_id="w", lock_timeout=1)
    await functions.factory.conn.execute(
        "update documents set lock_expires_at = now() - interval '1 second'"
    )
    assert (await functions.serve("stale-monitor")).json() == {"documents": 1}
    assert (await functions.serve("stale-monitor")).json() == {"documents": 0}


@pytest.mark.parametrize(
    "name",
    [
        *("ocr-worker", "pdf-worker", "ocr-universal", "pdf-extract"),
        *("retention", "stale-monitor", "webhooks"),
    ],
)
async def test_functions_of_services_want_the_secret_key_and_obey_their_switch(
    functions: House, name: str
) -> None:
    """A person is refused, nobody is refused, and a switch works at once."""
    body = {"document_id": str(uuid.uuid4()), "lock_token": str(uuid.uuid4())}
    user = await functions.factory.user(admin=True)
    assert (await functions.post(name, json=body)).status_code == 401
    assert (await functions.post(name, json=body, user=user)).status_code == 403
    await functions.factory.conn.execute(
        """
        insert into edge_function_config (function_name, enabled) values (%s, false)
        on conflict (function_name) do update set enabled = false
        """,
        (name,),
    )
    answer = await functions.serve(name, json=body)
    assert (answer.status_code, answer.json()["error"]) == (503, "SWITCHED_OFF")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "name", ["ocr-worker", "ocr-universal", f"documents/{uuid.UUID(int=0)}/read-again"]
)
async def test_a_large_body_is_not_taken_in(functions: House, name: str) -> None:
    """Bodies are read before anybody asks who sends them, so strangers could fill the memory."""
    answer = await functions.post(name, json={"engine": "x" * 70_000})
    assert (answer.status_code, answer.json()["error"]) == (413, "REQUEST_ENTITY_TOO_LARGE")


def test_the_answer_has_a_count_for_every_outcome() -> None:
    """A new way to end would otherwise not be told."""
    counted = set(document_workers.WorkResult.model_fields) - {"busy", "ignored"}
    assert counted == {str(outcome) for outcome in documents.Outcome}
