"""Stored sessions, refreshed tokens, and the secret key."""

from __future__ import annotations

import asyncio
import stat
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pagewarden import client, errors
from pagewarden.client import auth, http
from tests.client.desk import ADA, Desk
from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from pathlib import Path

SESSION = client.Session(ADA, "access", "refresh", 1.0)


def outdate(desk: Desk) -> client.Session:
    """Let the access token of a session be about to expire."""
    session = desk.sessions.get(desk.house.url)
    assert session is not None
    outdated = replace(session, expires_at=time.time() + 5)
    desk.sessions.save(desk.house.url, outdated)
    return outdated


def test_session_store_is_private_and_keyed_by_server(tmp_path: Path) -> None:
    """Folder and file are readable by their owner only; sessions can be replaced and removed."""
    store = client.SessionStore(tmp_path / "config" / "session.json")
    store.save("http://a", SESSION)
    store.save("http://b", replace(SESSION, email="bob@example.org"))
    store.save("http://a", replace(SESSION, access_token="newer"))
    store.remove("http://b")

    assert store.get("http://a") == replace(SESSION, access_token="newer")
    assert store.get("http://b") is None
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in store.path.parent.iterdir()] == ["session.json"]
    assert "access" not in repr(SESSION)


def test_corrupt_session_file_error_has_no_tokens(tmp_path: Path) -> None:
    """It names the file and says what to do."""
    store = client.SessionStore(tmp_path / "session.json")
    store.path.write_text('{"http://a": {"access_token": "secret"')
    with pytest.raises(errors.LocalFileError, match="remove it, and sign in again") as caught:
        store.get("http://a")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_session_lock_is_exclusive(tmp_path: Path) -> None:
    """A second process waits, and can be cancelled while it waits."""
    store, others = (client.SessionStore(tmp_path / "session.json") for _ in range(2))
    entered = asyncio.Event()

    async def enter() -> None:
        async with others.locked():
            entered.set()

    async with store.locked():
        waiting = asyncio.create_task(enter())
        cancelled = asyncio.create_task(enter())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert not entered.is_set()
    await polling.wait_until(entered.is_set)
    await waiting


async def test_expiring_token_is_refreshed(desk: Desk) -> None:
    """The new refresh token is stored for the next command."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    for _ in range(2):
        old = outdate(desk)
        async with client.open_client(desk.chosen(), sessions=desk.sessions) as ada:
            assert await ada.status(accepted.document_id)
        new = desk.sessions.get(desk.house.url)
        assert new is not None
        assert new.refresh_token != old.refresh_token
        assert new.expires_at > time.time() + 3000


async def test_concurrent_calls_refresh_once(desk: Desk) -> None:
    """A refresh token is valid once; other tasks and processes use the session of the first."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    outdate(desk)
    before = await _refreshes(desk)

    async def ask() -> None:
        async with client.open_client(desk.chosen(), sessions=desk.sessions) as other:
            await asyncio.gather(*(other.status(accepted.document_id) for _ in range(3)))

    await asyncio.gather(*(ask() for _ in range(4)))
    assert await _refreshes(desk) == before + 1


async def test_refused_token_is_refreshed(desk: Desk) -> None:
    """The local clock may be wrong, or the signing secret may have changed."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    session = desk.sessions.get(desk.house.url)
    assert session is not None
    desk.sessions.save(desk.house.url, replace(session, access_token="stale"))
    async with client.open_client(desk.chosen(), sessions=desk.sessions) as ada:
        assert await ada.status(accepted.document_id)
        assert await ada.upload(desk.file())


async def test_ended_session_is_removed(desk: Desk) -> None:
    """The message says what to do, now and at the next call."""
    await desk.sign_in()
    outdate(desk)
    await desk.house.factory.conn.execute("delete from auth.sessions")
    async with client.open_client(desk.chosen(), sessions=desk.sessions) as ada:
        with pytest.raises(errors.NotSignedIn, match=r"has ended.*pagewarden login"):
            await ada.upload(desk.file())
    assert desk.sessions.get(desk.house.url) is None
    with pytest.raises(errors.NotSignedIn, match=r"not signed in at http.*pagewarden login"):
        async with client.open_client(desk.chosen(), sessions=desk.sessions):
            pass


async def test_secret_key_is_sent_only_to_its_installation(desk: Desk) -> None:
    """Another URL gets it only if the settings name that URL; the client never creates a key."""
    chosen = desk.chosen(supabase_key=house.KEYS.secret_key + "x" * 20)
    for url, is_home in ((desk.house.url, True), ("http://elsewhere.example.org", False)):
        server = http.Connection(url)
        if is_home:
            assert auth.find_credentials(chosen, server, desk.sessions).account == "service"
        else:
            with pytest.raises(errors.NotSignedIn):
                auth.find_credentials(chosen, server, desk.sessions)
        await server.aclose()

    server = http.Connection(desk.house.url)
    with pytest.raises(errors.NotSignedIn):
        auth.find_credentials(desk.chosen(), server, desk.sessions)
    await server.aclose()
    assert not (desk.folder / "nothing").exists()


async def _refreshes(desk: Desk) -> int:
    query = "select sum(refresh_token_counter) from auth.sessions"
    row = await (await desk.house.factory.conn.execute(query)).fetchone()
    assert row is not None
    return int(row[0] or 0)
