"""Connections that are lost, servers that are away: reported once, and over when it is over."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pagewarden import database, errors
from pagewarden.local import bootstrap, cluster, server
from tests.support import lite as lites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEADLINE_SECONDS = 30

# slow() takes longer than any test, and counts its calls in a way that no rollback undoes.
_SCHEMA = """
create sequence public.calls;
select nextval('public.calls');
create function public.ping() returns text return 'pong';
create function public.slow() returns void language plpgsql security definer as $$
begin
  perform nextval('public.calls');
  perform pg_sleep(600);
end;
$$;
"""

_COUNT = "select count(*) from pg_stat_activity where"
_OURS = "application_name = 'pagewarden'"
_SLOW = "wait_event = 'PgSleep'"


@pytest.fixture(scope="module")
async def local(pytestconfig: pytest.Config) -> AsyncIterator[server.LocalServer]:
    """Run a server of this module's own, because its tests restart it."""
    # Not under pytest's own folder: as root that one is closed to the account of the server.
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    programs = pytestconfig.option.server_bin
    async with server.open_server(home, bin_dir=programs, durable=False) as local:
        await bootstrap.bootstrap(local.url(cluster.SUPERUSER), password=local.password)
        async with await psycopg.AsyncConnection.connect(local.url()) as connection:
            # The server commits asynchronously; its immediate restart would lose the schema.
            await connection.execute("set synchronous_commit = on")
            await connection.execute(_SCHEMA)
        yield local
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def db(local: server.LocalServer) -> AsyncIterator[database.Database]:
    """Connect directly."""
    async with await database.connect_direct(local.url()) as connected:
        yield connected


async def _ask(local: server.LocalServer, query: str) -> Any:
    url = local.url(cluster.SUPERUSER)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row[0]


async def _end_sessions(local: server.LocalServer, which: str = _OURS) -> None:
    """End sessions, by default those of the program under test, and wait until they have ended."""
    ended = "select bool_and(pg_terminate_backend(pid, 5000)) from pg_stat_activity where"
    assert await _ask(local, f"{ended} {which}")


async def _start_calls(
    local: server.LocalServer, db: database.Database, count: int
) -> list[asyncio.Task[Any]]:
    """Start calls, and go on once Postgres is busy with them."""
    calls = [asyncio.create_task(db.rpc("slow")) for _ in range(count)]
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await _ask(local, f"{_COUNT} {_SLOW}") != count:
            pass
    return calls


async def test_connection_that_ended_while_idle_is_replaced(
    local: server.LocalServer, db: database.Database
) -> None:
    """Nothing was sent over it, so nobody needs to know."""
    await asyncio.gather(*(db.rpc("ping") for _ in range(5)))
    await _end_sessions(local)

    assert await asyncio.gather(*(db.rpc("ping") for _ in range(5))) == ["pong"] * 5


async def test_connections_bear_the_name_that_the_environment_gives_them(
    local: server.LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that who runs several programs can tell whose they are; ours is the name otherwise."""
    for name in ("pagewarden", "left"):
        async with await database.connect_direct(local.url()) as connected:
            assert await connected.rpc("ping") == "pong"
            asked = f"{_COUNT} application_name = '{name}' and pid <> pg_backend_pid()"
            assert await _ask(local, asked) == 1
        monkeypatch.setenv("PGAPPNAME", "left")


async def test_call_whose_connection_is_lost_is_reported_and_not_repeated(
    local: server.LocalServer, db: database.Database
) -> None:
    """It may have been carried out, so it is for the caller to decide."""
    before = await _ask(local, "select last_value from calls")
    [call] = await _start_calls(local, db, 1)
    await _end_sessions(local)
    with pytest.raises(errors.DatabaseUnavailable) as caught:
        await call

    assert caught.value.outage
    assert await _ask(local, "select last_value from calls") == before + 1
    assert await db.rpc("ping") == "pong"


@pytest.mark.parametrize("mode", cluster.StopMode)
async def test_restart_costs_each_call_under_way_one_error(
    local: server.LocalServer, db: database.Database, mode: cluster.StopMode
) -> None:
    """Idle connections are replaced, however the server went down."""
    await asyncio.gather(*(db.rpc("ping") for _ in range(5)))
    calls = await _start_calls(local, db, 3)
    await local.restart(mode)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [errors.DatabaseUnavailable] * 3
    assert await asyncio.gather(*(db.rpc("ping") for _ in range(5))) == ["pong"] * 5


async def test_stopped_server_is_away_until_it_is_back(
    local: server.LocalServer, db: database.Database
) -> None:
    """A caller learns at once and with the reason, and need not wait once it is over."""
    assert await db.rpc("ping") == "pong"
    await local.cluster.stop()
    try:
        for _ in range(3):
            with pytest.raises(errors.DatabaseUnavailable, match="cannot be reached"):
                await db.rpc("ping")
        with pytest.raises(errors.DatabaseUnavailable, match="cannot be reached"):
            await database.connect_direct(local.url())
    finally:
        await local.cluster.ensure_running(port=local.address.port)

    assert await db.rpc("ping") == "pong"


async def test_call_that_takes_too_long_is_given_up(local: server.LocalServer) -> None:
    """The call is cancelled on the server too, and its connection can be used again."""
    async with await database.connect_direct(local.url(), connections=1, timeout=0.5) as db:
        with pytest.raises(errors.DatabaseUnavailable, match="within the timeout"):
            await db.rpc("slow")

        assert await _ask(local, f"{_COUNT} {_SLOW}") == 0
        assert await db.rpc("ping") == "pong"


async def test_cancelled_call_gives_its_connection_back(local: server.LocalServer) -> None:
    """A caller who is cancelled leaves nothing locked."""
    async with await database.connect_direct(local.url(), connections=1) as db:
        [call] = await _start_calls(local, db, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert await _ask(local, f"{_COUNT} {_SLOW}") == 0
        assert await db.rpc("ping") == "pong"


async def test_closing_ends_all_sessions(local: server.LocalServer) -> None:
    """Idle ones at once, others after their call; a call afterwards says what is wrong."""
    async with await database.connect_direct(local.url()) as db:
        await asyncio.gather(*(db.rpc("ping") for _ in range(3)))
        [call] = await _start_calls(local, db, 1)
    call.cancel()

    async with asyncio.timeout(DEADLINE_SECONDS):
        while await _ask(local, f"{_COUNT} {_OURS}"):
            pass
    with pytest.raises(errors.DatabaseUnavailable, match="closed"):
        await db.rpc("ping")


async def test_killed_gateway_is_an_outage(local: server.LocalServer) -> None:
    """Over HTTP a lost connection and a refused one are the same error."""
    if not lites.is_installed():
        pytest.skip("@supabase/lite is not installed; make test installs it")
    async with (
        lites.run_lite(local.tcp_url("authenticator")) as lite,
        database.connect_http(lite.url, lite.key) as db,
    ):
        [call] = await _start_calls(local, db, 1)
        await lite.kill()

        with pytest.raises(errors.DatabaseUnavailable):
            await call
        with pytest.raises(errors.DatabaseUnavailable):
            await db.rpc("ping")
    await _end_sessions(local, _SLOW)
