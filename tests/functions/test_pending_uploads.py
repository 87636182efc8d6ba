"""Uploads in two steps: a signed address, the file, and its confirmation."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from storage3 import AsyncStorageClient

from pagewarden.database import tables
from pagewarden.storage import upload_tokens
from tests.functions import house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from tests.documents import readers
    from tests.functions.house import House
    from tests.support import databases

OTHER_PDF = house.PDF[:-1] + b"y"  # as long as the announced one


def _describe(content: bytes, name: str = "Akte 1.pdf", **fields: str) -> dict[str, Any]:
    sha256 = hashlib.sha256(content).hexdigest()
    return {"name": name, "size": len(content), "sha256": sha256, **fields}


async def _sign(
    functions: House, user: uuid.UUID, content: bytes = house.PDF, **changes: Any
) -> dict[str, Any]:
    """Request an address, and have the answer."""
    asked = _describe(content) | changes
    answer = await functions.post("upload-to-dropbox/sign", user=user, json=asked)
    assert answer.status_code == 201, answer.text
    signed: dict[str, Any] = answer.json()
    return signed


async def _send(functions: House, signed: dict[str, Any], content: bytes) -> httpx.Response:
    return await functions.session.request(
        signed["method"], signed["url"], content=content, headers=signed["headers"]
    )


async def _confirm(
    functions: House, user: uuid.UUID | None, signed: dict[str, Any], **options: Any
) -> httpx.Response:
    path = f"upload-to-dropbox/{signed['upload_id']}/confirm"
    return await functions.post(path, user=user, **options)


def _error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def _staged(functions: House, signed: dict[str, Any]) -> Path:
    return functions.folder / "uploads" / str(signed["upload_id"])


async def test_confirmed_upload_is_an_ordinary_document(functions: House) -> None:
    """With its options and webhook; confirming again returns the same answer."""
    user = await functions.factory.user()
    case = str(await functions.factory.case(user))
    callback = "https://93.184.216.34/hook"
    signed = await _sign(functions, user, case_id=case, language="de", callback_url=callback)
    assert signed["url"].startswith(f"{functions.url}/storage/v1/object/upload/sign/uploads/")
    sent = await _send(functions, signed, house.PDF)
    assert (sent.status_code, sent.json()) == (200, {"Key": f"uploads/{signed['upload_id']}"})
    assert await functions.documents() == []

    first, again = [await _confirm(functions, user, signed) for _ in range(2)]

    assert (first.status_code, again.status_code) == (202, 202), first.text
    assert first.json() == again.json()
    assert not first.json()["existing"]
    (document,) = await functions.documents()
    assert first.json()["document_id"] == document["id"]
    assert (document["ocr_status"], document["lane"]) == ("queued_for_pdf", "pdf")
    assert (document["name"], document["language"]) == ("Akte 1.pdf", "de")
    assert (document["case_id"], document["mime_type"]) == (case, "application/pdf")
    assert document["sha256"] == hashlib.sha256(house.PDF).hexdigest()
    (stored,) = functions.stored()
    assert document["dropbox_path"] == stored.relative_to(functions.folder).as_posix()
    assert stored.read_bytes() == house.PDF
    (webhook,) = await functions.used.database.select(tables.webhooks)
    assert (webhook["document_id"], webhook["url"]) == (document["id"], callback)


async def test_same_bytes_again_and_new_versions_are_as_in_one_request(functions: House) -> None:
    """Deduplicated by SHA-256, versioned by name; only the files of documents are kept."""
    user = await functions.factory.user()
    direct = (await functions.upload(user, house.PDF, "Akte 1.pdf")).json()
    answers = []
    for content in (house.PDF, OTHER_PDF):
        signed = await _sign(functions, user, content)
        await _send(functions, signed, content)
        answers.append((await _confirm(functions, user, signed)).json())
    assert (answers[0]["document_id"], answers[0]["existing"]) == (direct["document_id"], True)
    assert (answers[1]["document_version"], answers[1]["existing"]) == (2, False)
    assert sorted(path.read_bytes() for path in functions.stored()) == [house.PDF, OTHER_PDF]


async def test_concurrent_confirmations_create_one_document(functions: House) -> None:
    """All return it, and one file remains."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    await _send(functions, signed, house.PDF)
    answers = await asyncio.gather(*(_confirm(functions, user, signed) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {202}, [a.text for a in answers]
    assert len({answer.text for answer in answers}) == 1
    assert len(await functions.documents()) == 1
    assert len(functions.stored()) == 1


async def test_wrong_bytes_are_refused_at_the_address(functions: House) -> None:
    """Other content, more and less of it; the right file can be sent afterwards, but only once."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    for wrong in (OTHER_PDF, house.PDF + b"x", house.PDF[:-1], b""):
        answer = await _send(functions, signed, wrong)
        assert _error(answer) == (422, "UPLOAD_MISMATCH")
        assert functions.stored() == []
    assert (await _send(functions, signed, house.PDF)).status_code == 200
    assert _error(await _send(functions, signed, OTHER_PDF)) == (409, "FILE_EXISTS")
    assert (await _confirm(functions, user, signed)).status_code == 202


@pytest.mark.parametrize("wrong", [OTHER_PDF, house.PDF[:-1]], ids=["digest", "size"])
async def test_wrong_bytes_in_the_store_are_refused_and_removed(
    functions: House, wrong: bytes
) -> None:
    """As an address of a store may accept them; the right bytes can be confirmed later."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    staged = _staged(functions, signed)
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(wrong)
    answer = await _confirm(functions, user, signed)
    assert _error(answer) == (422, "UPLOAD_MISMATCH")
    assert "instead of" in answer.json()["message"]
    assert functions.stored() == await functions.documents() == []
    await _send(functions, signed, house.PDF)
    assert (await _confirm(functions, user, signed)).status_code == 202


async def test_programs_are_refused_and_removed(functions: House) -> None:
    """Like in an upload by one request; empty and oversized files get no address."""
    user = await functions.factory.user()
    program = b"\x7fELF" + b"\0" * 100
    signed = await _sign(functions, user, program)
    await _send(functions, signed, program)
    assert _error(await _confirm(functions, user, signed)) == (415, "FORBIDDEN_TYPE")
    assert functions.stored() == await functions.documents() == []
    for size, expected in ((0, (422, "EMPTY_FILE")), (house.UPLOAD_LIMIT + 1, None)):
        asked = _describe(house.PDF) | {"size": size}
        answer = await functions.post("upload-to-dropbox/sign", user=user, json=asked)
        assert _error(answer) == (expected or (413, "FILE_TOO_LARGE"))


async def test_confirmation_before_the_file_arrives_changes_nothing(functions: House) -> None:
    """It can be confirmed once the file is there."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    assert _error(await _confirm(functions, user, signed)) == (409, "NOT_UPLOADED")
    await _send(functions, signed, house.PDF)
    assert (await _confirm(functions, user, signed)).status_code == 202


async def test_uploads_of_others_do_not_exist(functions: House) -> None:
    """For other users, also administrators; services may confirm all."""
    user, other = await functions.factory.user(), await functions.factory.user()
    admin = await functions.factory.user(admin=True)
    signed = await _sign(functions, user)
    await _send(functions, signed, house.PDF)
    for caller in (other, admin):
        assert _error(await _confirm(functions, caller, signed)) == (404, "UPLOAD_NOT_FOUND")
    unknown = {"upload_id": str(uuid.uuid4())}
    assert _error(await _confirm(functions, user, unknown)) == (404, "UPLOAD_NOT_FOUND")
    assert (await _confirm(functions, None, signed)).status_code == 401
    case = str(await functions.factory.case(other))
    asked = _describe(house.PDF, case_id=case)
    answer = await functions.post("upload-to-dropbox/sign", user=user, json=asked)
    assert _error(answer) == (404, "CASE_NOT_FOUND")
    served = await _confirm(functions, None, signed, headers={"apikey": house.KEYS.secret_key})
    assert served.status_code == 202


async def test_address_gives_access_to_one_file_only(functions: House) -> None:
    """Neither with another path, nor with the token of another upload or installation."""
    user = await functions.factory.user()
    document = (await functions.upload(user, house.PNG)).json()["document_id"]
    (existing,) = functions.stored()
    path = existing.relative_to(functions.folder).as_posix()
    signed, other = await _sign(functions, user), await _sign(functions, user)
    token = parse_qs(urlsplit(signed["url"]).query)["token"][0]
    prefix, mine = upload_tokens.UPLOADS_PREFIX, f"uploads/{signed['upload_id']}"
    grant = upload_tokens.UploadGrant(mine, len(house.PDF), signed["upload_id"])
    foreign = upload_tokens.UploadSigner("another secret").make_url(grant, 60)
    urls = [
        f"{prefix}/{path}?token={token}",
        f"{prefix}/uploads/{other['upload_id']}?token={token}",
        f"{prefix}/uploads/..%2F{path}?token={token}",
        f"{prefix}/uploads/%2e%2e/{mine}?token={token}",
        f"{prefix}/{mine}/x?token={token}",
        f"{prefix}/{mine}?token={house.token(user)}",
        f"{prefix}/{mine}?token=x",
        foreign,
    ]
    for url in urls:
        answer = await functions.session.put(url, content=house.PDF)
        assert answer.status_code in {403, 404}, url
    assert (await functions.session.put(f"{prefix}/{mine}", content=b"")).status_code == 400
    assert functions.stored() == [existing]
    assert existing.read_bytes() == house.PNG
    assert [row["id"] for row in await functions.documents()] == [document]


async def test_address_still_valid_cannot_change_a_document(functions: House) -> None:
    """What is sent after the confirmation is staged, and retention removes it."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    await _send(functions, signed, house.PDF)
    await _confirm(functions, user, signed)
    (stored,) = functions.stored()
    staged = _staged(functions, signed)
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(OTHER_PDF)  # as with a presigned URL of a bucket
    assert (await _confirm(functions, user, signed)).status_code == 202
    assert stored.read_bytes() == house.PDF
    await _expire(functions)
    assert (await functions.serve("retention")).json()["expired"] == 1
    assert functions.stored() == [stored]
    assert (await _confirm(functions, user, signed)).status_code == 202


async def test_unconfirmed_upload_is_removed_when_its_time_is_over(functions: House) -> None:
    """Only it: others stay, and so does a staged file without a row, which is reported."""
    user = await functions.factory.user()
    late, never, fresh = [await _sign(functions, user) for _ in range(3)]
    for signed in (late, fresh):
        await _send(functions, signed, house.PDF)
    unknown = functions.folder / "uploads" / str(uuid.uuid4())
    unknown.write_bytes(house.PDF)
    for path in functions.stored():
        os.utime(path, (time.time() - 7200,) * 2)
    assert (await functions.serve("retention")).json()["expired"] == 0
    await _expire(functions, late, never)
    assert _error(await _confirm(functions, user, late)) == (404, "UPLOAD_NOT_FOUND")

    cleaned = (await functions.serve("retention")).json()

    assert (cleaned["expired"], cleaned["unknown_files"]) == (2, 1)
    assert set(functions.stored()) == {unknown, _staged(functions, fresh)}
    (row,) = await functions.used.database.select(tables.pending_uploads)
    assert row["id"] == fresh["upload_id"]
    assert _error(await _confirm(functions, user, late)) == (404, "UPLOAD_NOT_FOUND")
    assert (await _confirm(functions, user, fresh)).status_code == 202
    assert (await functions.serve("retention")).json()["expired"] == 0


async def _expire(functions: House, *signed: dict[str, Any]) -> None:
    """Let the time of these uploads pass, or of all."""
    ids = [one["upload_id"] for one in signed] or [
        row["id"] for row in await functions.used.database.select(tables.pending_uploads)
    ]
    conn = functions.factory.conn
    await conn.execute(
        "update public.pending_uploads set expires_at = now() where id::text = any (%s)", [ids]
    )
    paths = [f"uploads/{one}" for one in ids]
    await conn.execute(
        "update private.temporary_files set expires_at = now() where path = any (%s)", [paths]
    )


async def test_client_of_supabase_uploads_to_our_address(functions: House) -> None:
    """Its form has other fields before the file."""
    user = await functions.factory.user()
    signed = await _sign(functions, user)
    token = parse_qs(urlsplit(signed["url"]).query)["token"][0]
    async with AsyncStorageClient(f"{functions.url}/storage/v1/", {}) as client:
        bucket = client.from_("uploads")
        await bucket.upload_to_signed_url(signed["upload_id"], token, house.PDF)
    assert (await _confirm(functions, user, signed)).status_code == 202


@pytest.fixture
async def limited(
    database: databases.Database,
    gateway: Database,
    chosen: Settings,
    recorder: readers.Recorder,
) -> AsyncIterator[House]:
    """Serve all functions as if behind a gateway with limits."""
    changes = {"max_direct_upload": 1000, "max_direct_download": 1000}
    settings = chosen.model_copy(update=changes)
    async with house.opened(database, gateway, settings, recorder) as opened:
        yield opened


async def test_server_says_from_which_size_on_an_address_is_needed(
    functions: House, limited: House
) -> None:
    """A larger upload in one request is refused, with the way to do it."""
    user = await functions.factory.user()
    url = "upload-to-dropbox"
    limits = (await functions.call("GET", url, user=user)).json()
    assert set(limits.values()) == {house.UPLOAD_LIMIT}
    functions = limited
    limits = (await functions.call("GET", url, user=user)).json()
    assert limits == {"max_bytes": house.UPLOAD_LIMIT, "max_direct_bytes": 1000}
    answer = await functions.upload(user, house.PDF)
    assert _error(answer) == (413, "DIRECT_UPLOAD_TOO_LARGE")
    assert "upload-to-dropbox/sign" in answer.json()["message"]
    assert functions.stored() == []
    assert (await functions.upload(user, house.PNG)).status_code == 202


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "A" * 64},
        {"sha256": None},
        {"size": -1},
        {"size": 2**63},
        {"size": "many"},
        {"name": ""},
        {"case_id": "x"},
        {"callback_url": "https://127.0.0.1/"},
        {"engine": " "},
    ],
    ids=str,
)
async def test_invalid_requests_for_an_address_are_refused(
    functions: House, changes: dict[str, Any]
) -> None:
    """With a reason, and nothing is recorded."""
    user = await functions.factory.user()
    asked = _describe(house.PDF) | changes
    answer = await functions.post("upload-to-dropbox/sign", user=user, json=asked)
    assert answer.status_code == 400, answer.text
    assert answer.json()["message"]
    assert await functions.used.database.select(tables.pending_uploads) == []
