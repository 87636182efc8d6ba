"""The client against a real server: what goes well, what breaks, and what is said then."""

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
from tests.support.serving import serving

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_file_goes_in_and_its_text_comes_out(desk: Desk) -> None:
    """Sent in pieces that are told of, under its own name, with the wishes; then read."""
    path = desk.file("Ärzte & Co.png", house.PNG + b"\0" * 3_000_000)
    sent: list[int] = []
    async with desk.connected() as ada:
        case = str(await desk.house.factory.case(await _id_of(desk)))
        wishes = client.Wishes(case, "deu", "rapid", "fast")
        accepted = await ada.upload(path, wishes=wishes, sent=sent.append)
        before = await ada.status(accepted.document_id)
        await desk.house.read()
        after = await clients.until_ended(ada, accepted.document_id, seen=lambda _seen: None)
        text = io.BytesIO()
        await ada.save_text(accepted.document_id, "txt", text)

    assert (accepted.name, accepted.case_id, accepted.existing) == (path.name, case, False)
    assert sent[0] == 0
    assert sent == sorted(sent)
    assert sent[-1] == path.stat().st_size
    assert (before.stage, after.stage) == (client.Stage.UNDER_WAY, client.Stage.READ)
    assert (after.pages_done, after.page_count, after.unread) == (2, 2, 0)
    assert text.getvalue().decode() == TEXT
    (document,) = await desk.house.documents()
    assert [document[key] for key in ("language", "engine", "profile")] == ["deu", "rapid", "fast"]
    assert document["size_bytes"] == path.stat().st_size


async def test_the_same_file_again_is_already_there(desk: Desk) -> None:
    """The answer says so, and names the same document."""
    async with desk.connected() as ada:
        first, again = [await ada.upload(desk.file()) for _ in range(2)]
    assert (first.existing, again.existing) == (False, True)
    assert first.document_id == again.document_id


async def test_a_document_can_be_cancelled(desk: Desk) -> None:
    """Whoever waits is told that it will not be read, and what can be done."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
        await ada.cancel(accepted.document_id)
        progress = await clients.until_ended(ada, accepted.document_id, seen=lambda _seen: None)
    assert progress.stage is client.Stage.NOT_READ
    assert "upload it again" in progress.trouble


async def test_a_service_uploads_with_the_key_of_the_installation(desk: Desk) -> None:
    """Without a case it goes to the inbox of the first administrator."""
    admin = await desk.house.factory.user(admin=True)
    async with desk.connected(supabase_key=house.KEYS.secret_key + "x" * 20) as nobody:
        with pytest.raises(errors.NotSignedIn, match="does not know the secret key"):
            await nobody.upload(desk.file())
    (desk.folder / "home").mkdir(parents=True)
    (desk.folder / "home" / "secret_key").write_text(house.KEYS.secret_key)
    async with desk.connected(home=desk.folder / "home") as service:
        accepted = await service.upload(desk.file())
        assert service.account == "service"
    (case,) = await desk.house.used.database.select(tables.cases, where={"id": accepted.case_id})
    assert case["user_id"] == str(admin)


async def test_a_line_that_breaks_in_the_middle_is_tried_again(desk: Desk) -> None:
    """The file is sent from its beginning, and is there once."""
    path = desk.file(content=house.PNG + b"\0" * 2_000_000)
    sent: list[int] = []
    async with breaking.line(desk.house.url, cuts=2, after=100_000) as line:
        async with desk.connected(line.url) as ada:
            accepted = await ada.upload(path, sent=sent.append)
        assert line.broken == 2
    assert sent.count(0) == 3
    (document,) = await desk.house.documents()
    assert document["id"] == accepted.document_id
    assert len(desk.house.stored()) == 1


async def test_a_server_that_wants_us_to_wait_is_waited_for(desk: Desk) -> None:
    """As long as it says."""
    switch = "update edge_function_config set enabled = %s where function_name = %s"
    conn = desk.house.factory.conn

    async with desk.connected() as ada:
        await conn.execute(switch, (False, "upload-to-dropbox"))
        desk.naps.meanwhile.append(lambda: conn.execute(switch, (True, "upload-to-dropbox")))
        assert (await ada.upload(desk.file())).ocr_status == "queued"
    assert desk.naps.taken == [60]


async def test_patience_with_a_server_that_is_gone_is_spent_once(desk: Desk) -> None:
    """The first call waits for it, the next ones do not; when it is back, all is well again."""
    async with breaking.line(desk.house.url, cuts=0) as line, desk.connected(line.url) as ada:
        accepted = await ada.upload(desk.file())
        line.cuts, line.after = 100, 0
        for naps in (3, 3):
            with pytest.raises(errors.ServerAway, match="was lost"):
                await ada.status(accepted.document_id)
            assert len(desk.naps.taken) == naps
        line.cuts = 0
        assert await ada.status(accepted.document_id)
        line.cuts = 101 + line.broken
        with pytest.raises(errors.ServerAway):
            await ada.status(accepted.document_id)
        assert len(desk.naps.taken) == 6


async def test_nobody_there_is_said_before_anything_is_done(desk: Desk) -> None:
    """What to do is said, too."""
    await desk.sign_in()
    with pytest.raises(errors.ServerAway, match=r"no server at .*`pagewarden up`.*--url"):
        async with desk.connected("http://127.0.0.1:1"):
            pass


async def test_what_is_refused_is_said_in_the_words_of_the_server(desk: Desk) -> None:
    """With status and code; also when it hangs up before it has heard everything."""
    large = desk.file("large.png", house.PNG + b"\0" * house.UPLOAD_LIMIT)
    elsewhere = client.Wishes(case_id=str(uuid.uuid4()))
    async with desk.connected() as ada:
        for path, wishes, status, code in (
            (desk.file("empty.png", b""), clients.NO_WISHES, 422, "EMPTY_FILE"),
            (desk.file("a.exe", b"\x7fELF" + b"\0" * 99), clients.NO_WISHES, 415, "FORBIDDEN_TYPE"),
            (large, clients.NO_WISHES, 413, "FILE_TOO_LARGE"),
            (desk.file(), elsewhere, 404, "CASE_NOT_FOUND"),
        ):
            with pytest.raises(errors.CallRefused) as caught:
                await ada.upload(path, wishes=wishes)
            assert (caught.value.status, caught.value.code) == (status, code)
        accepted = await ada.upload(desk.file())
        with pytest.raises(errors.CallRefused, match="no text yet"):
            await ada.save_text(accepted.document_id, "txt", io.BytesIO())


async def test_another_kind_of_server_is_recognised(desk: Desk) -> None:
    """What answers there is no Pagewarden."""
    async with serving(FastAPI()) as url, desk.connected(url) as ada:
        with pytest.raises(errors.CallRefused, match=r"answered 404; is there a Pagewarden|Not"):
            await ada.upload(desk.file())


async def test_a_file_that_changes_meanwhile_is_not_sent_by_half(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that grows is sent as it was; one that shrinks is not sent; one that is gone, neither."""
    monkeypatch.setattr("pagewarden.client.client.CHUNK_BYTES", 100_000)
    content = house.PNG + b"\0" * 400_000

    def change(path: Path, size: int) -> None:
        with path.open("r+b") as file:
            file.truncate(size)

    async with desk.connected() as ada:
        path = desk.file("grows.png", content)
        await ada.upload(path, sent=lambda _position: change(path, len(content) * 2))
        shrinking = desk.file("shrinks.png", content)
        with pytest.raises(errors.LocalFileError, match="became shorter"):
            await ada.upload(shrinking, sent=lambda _position: change(shrinking, 1000))
        with pytest.raises(errors.LocalFileError, match="No such file"):
            await ada.upload(desk.folder / "none.png")
    (document,) = await desk.house.documents()
    assert document["size_bytes"] == len(content)


@pytest.mark.parametrize(
    "url", ["ocr.example.org", "ftp://x", "http://", "http://x/y", "http://a b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Nothing is sent anywhere."""
    with pytest.raises(errors.SettingsError, match="no address"):
        clients.address(url)


@given(
    st.integers(0, 1000),
    st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_the_server_is_asked_neither_too_often_nor_too_seldom(
    polls: int, seconds_left: float | None
) -> None:
    """Between a fifth of a second and five, and at once more often when it is nearly done."""
    pause = clients.pause(polls, seconds_left)
    assert clients.SHORTEST_SECONDS <= pause <= clients.LONGEST_SECONDS
    assert (
        clients.pause(polls, 0)
        == clients.SHORTEST_SECONDS
        <= pause
        <= clients.pause(polls + 1, None)
    )


async def _id_of(desk: Desk) -> uuid.UUID:
    query = "select id from auth.users where email = 'ada@example.org'"
    row = await (await desk.house.factory.conn.execute(query)).fetchone()
    assert row is not None
    found: uuid.UUID = row[0]
    return found
