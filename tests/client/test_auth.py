"""Who is signed in from a computer, and what becomes of the tokens."""

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
    """Let the access token of a session be about to end."""
    session = desk.kept.get(desk.house.url)
    assert session is not None
    outdated = replace(session, expires_at=time.time() + 5)
    desk.kept.keep(desk.house.url, outdated)
    return outdated


def test_sessions_are_kept_by_server_for_their_owner_only(tmp_path: Path) -> None:
    """Folder and file are closed to others; a session can be replaced and forgotten."""
    kept = client.Sessions(tmp_path / "config" / "session.json")
    kept.keep("http://a", SESSION)
    kept.keep("http://b", replace(SESSION, email="bob@example.org"))
    kept.keep("http://a", replace(SESSION, access_token="newer"))
    kept.remove("http://b")

    assert kept.get("http://a") == replace(SESSION, access_token="newer")
    assert kept.get("http://b") is None
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in kept.path.parent.iterdir()] == ["session.json"]
    assert "access" not in repr(SESSION)


def test_a_broken_file_is_named_and_its_tokens_are_not(tmp_path: Path) -> None:
    """What to do is said."""
    kept = client.Sessions(tmp_path / "session.json")
    kept.path.write_text('{"http://a": {"access_token": "secret"')
    with pytest.raises(errors.LocalFileError, match="remove it, and sign in again") as caught:
        kept.get("http://a")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_only_one_at_a_time_changes_sessions(tmp_path: Path) -> None:
    """Another one waits, and can be cancelled while waiting."""
    kept, others = (client.Sessions(tmp_path / "session.json") for _ in range(2))
    entered = asyncio.Event()

    async def enter() -> None:
        async with others.locked():
            entered.set()

    async with kept.locked():
        waiting = asyncio.create_task(enter())
        cancelled = asyncio.create_task(enter())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert not entered.is_set()
    await polling.until(entered.is_set)
    await waiting


async def test_a_session_goes_on_when_its_token_is_about_to_end(desk: Desk) -> None:
    """The next refresh token is kept, so that the next command goes on as well."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    for _ in range(2):
        old = outdate(desk)
        async with client.opened(desk.chosen(), kept=desk.kept) as ada:
            assert await ada.status(accepted.document_id)
        new = desk.kept.get(desk.house.url)
        assert new is not None
        assert new.refresh_token != old.refresh_token
        assert new.expires_at > time.time() + 3000


async def test_many_at_once_refresh_once(desk: Desk) -> None:
    """A refresh token can be used once; tasks and other processes take what the first one got."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    outdate(desk)
    before = await _refreshes(desk)

    async def ask() -> None:
        async with client.opened(desk.chosen(), kept=desk.kept) as other:
            await asyncio.gather(*(other.status(accepted.document_id) for _ in range(3)))

    await asyncio.gather(*(ask() for _ in range(4)))
    assert await _refreshes(desk) == before + 1


async def test_a_token_that_is_refused_is_renewed(desk: Desk) -> None:
    """The clock of this computer may be wrong, or the token's secret another one now."""
    async with desk.connected() as ada:
        accepted = await ada.upload(desk.file())
    session = desk.kept.get(desk.house.url)
    assert session is not None
    desk.kept.keep(desk.house.url, replace(session, access_token="stale"))
    async with client.opened(desk.chosen(), kept=desk.kept) as ada:
        assert await ada.status(accepted.document_id)
        assert await ada.upload(desk.file())


async def test_a_session_that_has_ended_is_forgotten(desk: Desk) -> None:
    """What to do is said, now and the next time."""
    await desk.sign_in()
    outdate(desk)
    await desk.house.factory.conn.execute("delete from auth.sessions")
    async with client.opened(desk.chosen(), kept=desk.kept) as ada:
        with pytest.raises(errors.NotSignedIn, match=r"has ended.*pagewarden login"):
            await ada.upload(desk.file())
    assert desk.kept.get(desk.house.url) is None
    with pytest.raises(errors.NotSignedIn, match=r"not signed in at http.*pagewarden login"):
        async with client.opened(desk.chosen(), kept=desk.kept):
            pass


async def test_the_secret_key_goes_nowhere_but_home(desk: Desk) -> None:
    """Another address gets it only when the settings name that address; none is ever made."""
    chosen = desk.chosen(supabase_key=house.KEYS.secret_key + "x" * 20)
    for url, is_home in ((desk.house.url, True), ("http://elsewhere.example.org", False)):
        server = http.Calls(url)
        if is_home:
            assert auth.find(chosen, server, desk.kept).account == "service"
        else:
            with pytest.raises(errors.NotSignedIn):
                auth.find(chosen, server, desk.kept)
        await server.aclose()

    server = http.Calls(desk.house.url)
    with pytest.raises(errors.NotSignedIn):
        auth.find(desk.chosen(), server, desk.kept)
    await server.aclose()
    assert not (desk.folder / "nothing").exists()


async def _refreshes(desk: Desk) -> int:
    query = "select sum(refresh_token_counter) from auth.sessions"
    row = await (await desk.house.factory.conn.execute(query)).fetchone()
    assert row is not None
    return int(row[0] or 0)
