"""Database Webhooks of Supabase on `documents`: payload, secret, and events that are ignored."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from pagewarden import settings as settings_module
from tests.functions import house

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.documents import readers
    from tests.functions.house import House

SECRET = "c2VjcmV0IG9mIGEgdGVzdCwgb2YgY291cnNlLCAxMjM0"
# What supabase_functions.http_request() sends, less what it adds to the row.
PAYLOAD = """
select jsonb_build_object(
  'old_record', %(old)s::jsonb, 'record', to_jsonb(d), 'type', %(type)s::text,
  'table', 'documents', 'schema', 'public'
)
from public.documents as d where d.id = %(id)s
"""


@pytest.fixture
def chosen(tmp_path: Path) -> settings_module.Settings:
    """Know the secret of the webhooks."""
    return settings_module.Settings(
        home=tmp_path,
        upload_max_bytes=house.UPLOAD_LIMIT,
        database_webhook_secret=SecretStr(SECRET),
    )


async def payload(functions: House, document: Any, kind: str = "INSERT") -> dict[str, Any]:
    """Build the payload from the row, as the trigger does."""
    old = json.dumps({"id": document["id"]}) if kind == "UPDATE" else None
    row = await functions.factory.conn.execute(
        PAYLOAD, {"old": old, "type": kind, "id": document["id"]}
    )
    ((found,),) = await row.fetchall()
    assert isinstance(found, dict)
    return found


async def send(
    functions: House, body: object, name: str = "ocr-worker", secret: str = SECRET
) -> httpx.Response:
    """Call a worker as the webhook does."""
    return await functions.post(name, json=body, headers={"x-webhook-secret": secret})


@pytest.mark.parametrize("kind", ["INSERT", "UPDATE"])
async def test_the_document_of_the_event_is_read(functions: House, kind: str) -> None:
    """That one alone, by the worker of its lane; another worker says that it is not its own."""
    user = await functions.factory.user()
    for name, content in (("a.png", house.PNG), ("b.png", house.PNG), ("c.pdf", house.PDF)):
        await functions.upload(user, content, name)
    _, image, pdf = await functions.documents()
    answer = await send(functions, await payload(functions, image, kind))
    assert (answer.status_code, answer.json()["completed"]) == (200, 1), answer.text
    assert "lane pdf" in (await send(functions, await payload(functions, pdf))).json()["ignored"]
    answer = await send(functions, await payload(functions, pdf, kind), "pdf-worker")
    assert answer.json()["completed"] == 1
    rows = await functions.documents()
    assert [row["ocr_status"] for row in rows] == ["queued", "completed", "completed"]


async def test_a_webhook_without_the_secret_is_refused(
    functions: House, recorder: readers.Recorder
) -> None:
    """A wrong secret, an empty one, none; and the secret opens nothing but events."""
    await functions.upload(await functions.factory.user(), house.PNG)
    (document,) = await functions.documents()
    body = await payload(functions, document)
    for secret in ("wrong", "", SECRET + "x"):
        answer = await send(functions, body, secret=secret)
        assert (answer.status_code, answer.json()["error"]) == (401, "NOT_SIGNED_IN")
    assert (await functions.post("ocr-worker", json=body)).status_code == 401
    assert (await send(functions, {"budget_seconds": 10})).status_code == 403
    assert (await send(functions, {}, "stale-monitor")).status_code == 401
    assert recorder.asked.empty()
    # Services may send events too.
    assert (await functions.serve("ocr-worker", json=body)).json()["completed"] == 1


async def test_events_that_queue_nothing_are_answered_with_the_reason(
    functions: House, recorder: readers.Recorder
) -> None:
    """Other tables and schemas, deleted rows, documents that are unknown, read, or not due."""
    await functions.upload(await functions.factory.user(), house.PNG)
    (document,) = await functions.documents()
    body = await payload(functions, document, "UPDATE")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"table": "cases"}, "UPDATE on public.cases"),
        ({"schema": "private"}, "private.documents"),
        ({"type": "DELETE", "record": None}, "DELETE"),
        ({"record": {"id": str(uuid.uuid4())}}, "no such document"),
    ]
    for change, reason in changes:
        answer = await send(functions, body | change)
        assert answer.status_code == 200
        assert reason in answer.json()["ignored"], answer.text
    for sql, reason in (
        ("update documents set retry_at = now() + interval '1 hour'", "due at"),
        ("update documents set retry_at = null, ocr_status = 'pending_review'", "pending_review"),
    ):
        await functions.factory.conn.execute(sql.encode())
        answer = await send(functions, await payload(functions, document, "UPDATE"))
        assert reason in answer.json()["ignored"], answer.text
    assert (await send(functions, body | {"record": {"id": 7}})).status_code == 400
    assert recorder.asked.empty()


async def test_a_webhook_is_refused_where_no_secret_is_configured(functions: House) -> None:
    """An empty setting is not an empty secret."""
    object.__setattr__(functions.used.settings, "database_webhook_secret", None)
    assert (await send(functions, {}, secret="")).status_code == 401
