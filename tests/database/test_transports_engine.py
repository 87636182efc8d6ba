"""The life of a document, over both transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden import database as ways
from pagewarden import errors
from pagewarden.database import tables
from tests.support import lite as lites
from tests.support import transports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases


@pytest.fixture(params=transports.NAMES)
async def service(
    request: pytest.FixtureRequest, database: databases.Database
) -> AsyncIterator[ways.Database]:
    """Connect to a migrated database as service role."""
    async with transports.open_database(request.param, database) as connected:
        yield connected


async def _sign_in(database: databases.Database) -> ways.User:
    user_id = str(await database.create_user())
    return ways.User(user_id, lites.make_token(user_id))


async def test_document_is_uploaded_claimed_read_and_seen_by_its_owner(
    service: ways.Database, database: databases.Database
) -> None:
    """Owner, worker and stranger each get the answers the schema gives them."""
    owner, stranger = await _sign_in(database), await _sign_in(database)
    as_owner, as_stranger = service.acting_as(owner), service.acting_as(stranger)
    page = {"page_number": 1, "text": "“Tēnā koe” \\ 100 % ✓", "confidence": 0.9}

    case_id = await as_owner.create_case(name="Letters")
    await as_owner.safe_document_reupload_v2(
        case_id=case_id,
        document_name="letter.png",
        new_dropbox_path=f"{case_id}/letter.png",
        file_extension="png",
    )
    [claimed] = await service.rpc("claim_documents", p_worker_id="w1", p_lanes=["image"])
    completed = await service.rpc(
        "process_ocr_atomic",
        p_document_id=claimed["id"],
        p_ocr_data={"pages": [page], "text": page["text"]},
        p_confidence=0.9,
        p_processing_time_ms=120,
        p_lock_token=claimed["lock_token"],
        p_engine="rapid",
        p_version="1",
    )

    assert completed["success"]
    assert await service.rpc("claim_documents", p_worker_id="w1", p_lanes=["image"]) == []
    [seen] = await as_owner.select(tables.documents, where={"case_id": case_id})
    assert (seen["id"], seen["ocr_status"]) == (claimed["id"], "completed")
    [text] = await as_owner.select(tables.ocr_pages, where={"document_id": claimed["id"]})
    assert text["text"] == page["text"]
    assert await as_stranger.select(tables.documents, where={"case_id": case_id}) == []
    with pytest.raises(errors.DatabaseError) as caught:
        await as_stranger.rpc("claim_documents", p_worker_id="w2")
    assert caught.value.sqlstate == "42501"
