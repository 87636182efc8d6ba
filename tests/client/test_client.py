"""The client against a real server: uploads, errors and retries."""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import client, errors
from pagewarden.client import client as clients
from pagewarden.database import tables
from tests.client import breaking
from tests.client.desk import TEXT, Desk
from tests.functions import house
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from pathlib import Path


async def test_upload_wait_and_download_text(desk: Desk) -> None:
    """The upload reports its progress and keeps file name and options."""
    path = desk.file("Ärzte & Co.png", house.PNG + b"\0" * 3_000_000)
    sent: list[int] = []
    async with desk.connected() as ada:
        case = str(await desk.house.factory.case(await _id_of(desk)))
        options = client.UploadOptions(case, "deu", "rapid", "fast")
        accepted = await ada.upload(path, options=options, on_sent=sent.append)
        before = await ada.status(accepted.document_id)
        await desk.house.read()
        after = await client.wait_until_finished(
            ada, accepted.document_id, on_progress=lambda _progress: None
        )
        text = io.BytesIO()
        await ada.save_text(accepted.document_id, "txt", text)

    assert (accepted.name, accepted.case_id, accepted.existing) == (path.name, case, False)
    assert sent[0] == 0
    assert sent == sorted(sent)
    assert sent[-1] == path.stat().st_size
    assert (before.state, after.state) == (
        client.DocumentState.IN_PROGRESS,
        client.DocumentState.READ,
    )
    assert (after.pages_done, after.page_count, after.unread) == (2, 2, 0)
    assert text.getvalue().decode() == TEXT
    (document,) = await desk.house.documents()
    assert [document[key] for key in ("language", "engine", "profile")] == ["deu", "rapid", "fast"]
    assert document["size_bytes"] == path.stat().st_size


async def test_second_upload_of_a_file_returns_the_existing_document(desk: Desk) -> None:
    """It has the same id, and existing is set."""
    async with desk.connected() as ada:
        first, again = [await ada.upload(desk.file()) for _ in range(2)]
    assert (first.existing, again.existing) == (False, True)
    assert first.document_id == again.document_id


async def test_cancelled_document_ends_the_wait(desk: Desk) -> None:
    """The progress says that it will not be read, and what to do."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
        await ada.cancel(accepted.document_id)
        progress = await client.wait_until_finished(
            ada, accepted.document_id, on_progress=lambda _progress: None
        )
    assert progress.state is client.DocumentState.NOT_READ
    assert "upload it again" in progress.problem


async def test_upload_with_the_secret_key(desk: Desk) -> None:
    """Without a case the document goes to the inbox of the first administrator."""
    admin = await desk.house.factory.user(admin=True)
    async with desk.connected(supabase_key=house.KEYS.secret_key + "x" * 20) as stranger:
        with pytest.raises(errors.NotSignedIn, match="rejects the secret key"):
            await stranger.upload(desk.file())
    (desk.folder / "home").mkdir(parents=True)
    (desk.folder / "home" / "secret_key").write_text(house.KEYS.secret_key)
    async with desk.connected(home=desk.folder / "home") as service:
        accepted = await service.upload(desk.file())
        assert service.account == "service"
    (case,) = await desk.house.used.database.select(tables.cases, where={"id": accepted.case_id})
    assert case["user_id"] == str(admin)


async def test_interrupted_upload_is_retried(desk: Desk) -> None:
    """The file is sent again from its beginning and stored once."""
    path = desk.file(content=house.PNG + b"\0" * 2_000_000)
    sent: list[int] = []
    async with breaking.line(desk.house.url, cuts=2, after=100_000) as line:
        async with desk.connected(line.url) as ada:
            accepted = await ada.upload(path, on_sent=sent.append)
        assert line.broken == 2
    assert sent.count(0) == 3
    (document,) = await desk.house.documents()
    assert document["id"] == accepted.document_id
    assert len(desk.house.stored()) == 1


async def test_retry_after_is_respected(desk: Desk) -> None:
    """The client sleeps as long as the server says."""
    switch = "update edge_function_config set enabled = %s where function_name = %s"
    conn = desk.house.factory.conn

    async with desk.connected() as ada:
        await conn.execute(switch, (False, "upload-to-dropbox"))
        desk.naps.meanwhile.append(lambda: conn.execute(switch, (True, "upload-to-dropbox")))
        assert (await ada.upload(desk.file())).ocr_status == "queued"
    assert desk.naps.taken == [60]


async def test_an_unreachable_server_is_retried_for_one_call_only(desk: Desk) -> None:
    """Later calls fail at once; after a success, retries resume."""
    async with breaking.line(desk.house.url, cuts=0) as line, desk.connected(line.url) as ada:
        accepted = await ada.upload(desk.file())
        line.cuts, line.after = 100, 0
        for naps in (3, 3):
            with pytest.raises(errors.ServerUnavailable, match="was lost"):
                await ada.status(accepted.document_id)
            assert len(desk.naps.taken) == naps
        line.cuts = 0
        assert await ada.status(accepted.document_id)
        line.cuts = 101 + line.broken
        with pytest.raises(errors.ServerUnavailable):
            await ada.status(accepted.document_id)
        assert len(desk.naps.taken) == 6


async def test_open_client_fails_without_a_server(desk: Desk) -> None:
    """The message says what to do."""
    await desk.sign_in()
    with pytest.raises(
        errors.ServerUnavailable, match=r"no server is listening at .*`pagewarden up`.*--url"
    ):
        async with desk.connected("http://127.0.0.1:1"):
            pass


async def test_refused_upload_has_status_code_and_message(desk: Desk) -> None:
    """Also if the server closes the connection before it has read the whole body."""
    large = desk.file("large.png", house.PNG + b"\0" * house.UPLOAD_LIMIT)
    elsewhere = client.UploadOptions(case_id=str(uuid.uuid4()))
    async with desk.connected() as ada:
        for path, options, status, code in (
            (desk.file("empty.png", b""), clients.DEFAULT_OPTIONS, 422, "EMPTY_FILE"),
            (
                desk.file("a.exe", b"\x7fELF" + b"\0" * 99),
                clients.DEFAULT_OPTIONS,
                415,
                "FORBIDDEN_TYPE",
            ),
            (large, clients.DEFAULT_OPTIONS, 413, "FILE_TOO_LARGE"),
            (desk.file(), elsewhere, 404, "CASE_NOT_FOUND"),
        ):
            with pytest.raises(errors.CallRejected) as caught:
                await ada.upload(path, options=options)
            assert (caught.value.status, caught.value.code) == (status, code)
        accepted = await ada.upload(desk.file())
        with pytest.raises(errors.CallRejected, match="no text yet"):
            await ada.save_text(accepted.document_id, "txt", io.BytesIO())


async def test_server_that_is_not_pagewarden(desk: Desk) -> None:
    """The message asks whether the URL is that of a Pagewarden server."""
    async with serve_app(FastAPI()) as url, desk.connected(url) as ada:
        with pytest.raises(errors.CallRejected, match=r"responded with 404; check that|Not"):
            await ada.upload(desk.file())


async def test_file_that_changes_during_the_upload(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appended bytes are not sent; a file that shrinks or is missing is an error."""
    monkeypatch.setattr("pagewarden.client.client.CHUNK_BYTES", 100_000)
    content = house.PNG + b"\0" * 400_000

    def change(path: Path, size: int) -> None:
        with path.open("r+b") as file:
            file.truncate(size)

    async with desk.connected() as ada:
        path = desk.file("grows.png", content)
        await ada.upload(path, on_sent=lambda _position: change(path, len(content) * 2))
        shrinking = desk.file("shrinks.png", content)
        with pytest.raises(errors.LocalFileError, match="was truncated during the upload"):
            await ada.upload(shrinking, on_sent=lambda _position: change(shrinking, 1000))
        with pytest.raises(errors.LocalFileError, match="No such file"):
            await ada.upload(desk.folder / "none.png")
    (document,) = await desk.house.documents()
    assert document["size_bytes"] == len(content)


@pytest.mark.parametrize(
    "url", ["ocr.example.org", "ftp://x", "http://", "http://x/y", "http://a b"]
)
def test_invalid_url_is_refused(url: str) -> None:
    """It is a settings error, before any connection."""
    with pytest.raises(errors.SettingsError, match="not the URL of a server"):
        clients.normalize_url(url)


@given(
    st.integers(0, 1000),
    st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_poll_interval_is_bounded(polls: int, seconds_left: float | None) -> None:
    """It is between 0.2 and 5 seconds, and shortest when the document is nearly done."""
    interval = clients.compute_poll_interval(polls, seconds_left)
    assert clients.MIN_POLL_SECONDS <= interval <= clients.MAX_POLL_SECONDS
    assert (
        clients.compute_poll_interval(polls, 0)
        == clients.MIN_POLL_SECONDS
        <= interval
        <= clients.compute_poll_interval(polls + 1, None)
    )


async def _id_of(desk: Desk) -> uuid.UUID:
    query = "select id from auth.users where email = 'ada@example.org'"
    row = await (await desk.house.factory.conn.execute(query)).fetchone()
    assert row is not None
    found: uuid.UUID = row[0]
    return found
