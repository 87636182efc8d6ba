from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pagewarden import errors
from pagewarden.local import account, cluster, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

DEADLINE_SECONDS = 30


@pytest.fixture(scope="module")
def made_home() -> Iterator[Path]:
    """Name a home that the tests of this module share, one after the other."""
    # Not under pytest's own folder: as root that one is closed to the account of the server.
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def new_home() -> Iterator[Path]:
    """Name a home that does not exist yet."""
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def empty_home(new_home: Path) -> Path:
    """Make a home that the server's account may pass through."""
    new_home.mkdir()
    new_home.chmod(0o711)
    return new_home


@pytest.fixture
def closed_folder(new_home: Path) -> Path:
    """Make a folder that nobody else can enter and nobody can write to."""
    new_home.mkdir(mode=0o500)
    return new_home


@pytest.fixture
def bin_dir(pytestconfig: pytest.Config) -> Path | None:
    """Say which Postgres the tests run on."""
    return pytestconfig.option.server_bin  # type: ignore[no-any-return]  # options are untyped


def _running(
    home: Path, bin_dir: Path | None
) -> contextlib.AbstractAsyncContextManager[server.LocalServer]:
    return server.open_server(home, bin_dir=bin_dir, durable=False)


async def _ask(url: str, query: str) -> str:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return str(row[0])


def _postmaster(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().splitlines()[0])


def _modes(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mode for path in (folder, *folder.iterdir())}


def _child(name: str) -> int | None:
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if Path(f"/proc/{pid}/comm").read_text().strip() == name:
            return int(pid)
    return None


def _alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended but is not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _until_gone(pid: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while _alive(pid):  # noqa: ASYNC110  # no event comes from another process
            await asyncio.sleep(0.01)


async def _until_busy(local: server.LocalServer, session: int) -> None:
    query = f"select state from pg_stat_activity where pid = {session}"
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await _ask(local.url(cluster.SUPERUSER), query) != "active":  # noqa: ASYNC110  # as above
            await asyncio.sleep(0.01)


async def _until_child(name: str) -> int:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not (pid := _child(name)):  # noqa: ASYNC110  # no event comes from another process
            await asyncio.sleep(0.01)
    return pid


@contextlib.asynccontextmanager
async def _program(home: Path, bin_dir: Path | None) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start another program that uses this home; it stops when its input is closed."""
    arguments = [home] if bin_dir is None else [home, bin_dir]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.program"),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _postmaster_of(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_SECONDS):
        return int(await process.stdout.readline())


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await process.wait() == 0


async def test_server_answers_on_socket_and_port_and_stops_afterwards(
    made_home: Path, bin_dir: Path | None
) -> None:
    """Both addresses lead to the same server, which ends with the program."""
    async with _running(made_home, bin_dir) as local:
        over_socket = await _ask(local.url(cluster.SUPERUSER), "show data_directory")
        over_port = await _ask(local.tcp_url(cluster.SUPERUSER), "show data_directory")
        version = await _ask(local.url(cluster.SUPERUSER), "show server_version")
        pid = _postmaster(made_home)

    assert over_socket == over_port == str(made_home / "data")
    assert version.split()[0] == local.version
    assert not _alive(pid)


async def test_password_is_needed_on_socket_and_port(made_home: Path, bin_dir: Path | None) -> None:
    """Whoever gets to the socket or the port still needs the secret."""
    async with _running(made_home, bin_dir) as local:
        for url in (local.url(cluster.SUPERUSER), local.tcp_url(cluster.SUPERUSER)):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                await _ask(url.replace(local.password, "wrong"), "select 1")


async def test_everything_in_home_is_private(made_home: Path, bin_dir: Path | None) -> None:
    """Others can neither enter the home nor read what is in it, save the programs."""
    parent_mode = made_home.parent.stat().st_mode
    async with _running(made_home, bin_dir):
        modes = _modes(made_home)

    open_to_others = {path.name for path, mode in modes.items() if mode & stat.S_IRWXO}
    assert open_to_others <= {"server"}
    assert stat.S_IMODE(modes[made_home / "data"]) == 0o700
    assert stat.S_IMODE(modes[made_home / "password"]) == 0o600
    assert made_home.parent.stat().st_mode == parent_mode


async def test_names_are_lower_cased_beyond_ascii(made_home: Path, bin_dir: Path | None) -> None:
    """The locale knows the letters of all languages, in text and in searches."""
    async with _running(made_home, bin_dir) as local:
        found = await _ask(local.url(cluster.SUPERUSER), "select to_tsvector('simple', 'ÉCOLE')")

    assert found == "'école':1"


@pytest.mark.parametrize("durable", [True, False])
async def test_only_a_durable_server_waits_for_the_disk(
    made_home: Path, bin_dir: Path | None, *, durable: bool
) -> None:
    """Durability is on unless it is switched off."""
    async with server.open_server(made_home, bin_dir=bin_dir, durable=durable) as local:
        fsync = await _ask(local.url(cluster.SUPERUSER), "show fsync")

    assert fsync == ("on" if durable else "off")


async def test_programs_that_start_at_once_share_one_server(
    new_home: Path, bin_dir: Path | None
) -> None:
    """Three programs on a new home make one data folder, and the last one stops the server."""
    async with contextlib.AsyncExitStack() as stack:
        programs = [await stack.enter_async_context(_program(new_home, bin_dir)) for _ in range(3)]
        pids = {await _postmaster_of(program) for program in programs}
        for program in programs[1:]:
            await _end(program)
        alive_for_the_last = [_alive(pid) for pid in pids]
        await _end(programs[0])

    assert alive_for_the_last == [True]
    assert not any(map(_alive, pids))


async def test_killed_program_leaves_a_server_that_the_next_takes_over(
    made_home: Path, bin_dir: Path | None
) -> None:
    """After kill -9 the server stays up; the next program uses it and stops it."""
    async with _program(made_home, bin_dir) as program:
        pid = await _postmaster_of(program)
        program.kill()
    left_behind = _alive(pid)
    async with _running(made_home, bin_dir):
        taken_over = _postmaster(made_home)

    assert left_behind
    assert taken_over == pid
    assert not _alive(pid)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
async def test_ended_server_is_started_again_at_its_old_address(
    made_home: Path, bin_dir: Path | None, end: signal.Signals
) -> None:
    """After kill -9 of a durable server, or its shutdown, the next one is where it was."""
    async with server.open_server(made_home, bin_dir=bin_dir) as local:
        async with await psycopg.AsyncConnection.connect(local.url(cluster.SUPERUSER)) as conn:
            await conn.execute("create table if not exists kept ()")
        pid = _postmaster(made_home)
        os.kill(pid, end)
        await _until_gone(pid)
        async with _running(made_home, bin_dir) as again:
            found = await _ask(again.url(cluster.SUPERUSER), "select 'kept'::regclass")
            again_pid = _postmaster(made_home)

    assert found == "kept"
    assert again_pid != pid
    assert again.url() == local.url()


async def test_start_waits_for_sessions_that_outlive_their_server(
    made_home: Path, bin_dir: Path | None
) -> None:
    """A session still busy after kill -9 of the server keeps its data to itself until it ends."""
    async with _running(made_home, bin_dir) as local:
        busy = await psycopg.AsyncConnection.connect(local.url(cluster.SUPERUSER))
        session = busy.info.backend_pid
        query = "select count(*) from generate_series(1, 5000000) as n where n % 7 = 3"
        counting = asyncio.create_task(busy.execute(query))
        await _until_busy(local, session)
        os.kill(_postmaster(made_home), signal.SIGKILL)
        outlived = _alive(session)
        async with _running(made_home, bin_dir):
            still_there = _alive(session)
        await asyncio.wait([counting])
        await busy.close()

    assert outlived
    assert not still_there


async def test_number_of_a_dead_server_may_belong_to_another_program(
    made_home: Path, bin_dir: Path | None
) -> None:
    """After a crash of the machine the old process id may be anybody's; the server starts."""
    async with _running(made_home, bin_dir) as local:
        pid = _postmaster(made_home)
        os.kill(pid, signal.SIGKILL)
        await _until_gone(pid)
        record = made_home / "data" / "postmaster.pid"
        sleeper = asyncio.create_task(local.cluster.account.run("sleep", "60"))
        try:
            stranger = await _until_child("sleep")
            record.write_text(record.read_text().replace(f"{pid}\n", f"{stranger}\n", 1))
            async with _running(made_home, bin_dir):
                now = _postmaster(made_home)
            stranger_lives = _alive(stranger)
        finally:
            sleeper.cancel()
            await asyncio.wait([sleeper])

    assert now not in {pid, stranger}
    assert stranger_lives


async def test_taken_port_is_replaced_by_a_free_one(made_home: Path, bin_dir: Path | None) -> None:
    """A port that somebody took while the server was down does not keep it from starting."""
    async with _running(made_home, bin_dir) as local:
        pid = _postmaster(made_home)
        os.kill(pid, signal.SIGKILL)
        await _until_gone(pid)
        with socket.create_server(("127.0.0.1", local.address.port)):
            async with _running(made_home, bin_dir) as again:
                port = await _ask(again.tcp_url(cluster.SUPERUSER), "show port")

    assert port != str(local.address.port)


@pytest.mark.parametrize("mode", cluster.StopMode)
async def test_restart_keeps_the_address(
    made_home: Path, bin_dir: Path | None, mode: cluster.StopMode
) -> None:
    """A restarted server is another process at the same place; old connections are gone."""
    async with _running(made_home, bin_dir) as local:
        before = _postmaster(made_home)
        async with await psycopg.AsyncConnection.connect(local.url(cluster.SUPERUSER)) as conn:
            await local.restart(mode)
            with pytest.raises(psycopg.OperationalError):
                await conn.execute("select 1")
        after = await _ask(local.url(cluster.SUPERUSER), "select 'up'")

        assert after == "up"
        assert _postmaster(made_home) != before


async def test_long_path_moves_the_socket(new_home: Path, bin_dir: Path | None) -> None:
    """A home too deep for a socket gets a private folder for it, which goes away again."""
    async with _running(new_home / ("deep" * 25), bin_dir) as local:
        folder = local.address.folder
        mode = stat.S_IMODE(folder.stat().st_mode)
        answer = await _ask(local.url(cluster.SUPERUSER), "select 'here'")

    assert answer == "here"
    assert not folder.is_relative_to(new_home)
    assert mode == 0o700
    assert not folder.exists()


async def test_closed_parent_folder_is_named(closed_folder: Path, bin_dir: Path | None) -> None:
    """A home that the server cannot reach is an error that says where, and what to set."""
    with pytest.raises(errors.LocalStackError, match=rf"{closed_folder}.*PAGEWARDEN_HOME"):
        async with _running(closed_folder / "home", bin_dir):
            pass


async def test_home_that_a_shell_would_misread_is_refused(new_home: Path) -> None:
    """A path with a dollar sign never gets to pg_ctl, which would let a shell expand it."""
    with pytest.raises(errors.LocalStackError, match=r"\$.*PAGEWARDEN_HOME"):
        async with _running(new_home / "$(id)", None):
            pass


async def test_server_that_does_not_start_says_why(made_home: Path, bin_dir: Path | None) -> None:
    """The error has the end of the server's log."""
    async with _running(made_home, bin_dir):
        pass
    configuration = made_home / "data" / "postgresql.conf"
    good = configuration.read_bytes()
    configuration.write_bytes(good + b"no_such_setting = 1\n")
    try:
        with pytest.raises(errors.LocalStackError, match="no_such_setting"):
            async with _running(made_home, bin_dir):
                pass
    finally:
        configuration.write_bytes(good)


async def test_data_of_another_major_version_is_refused(
    made_home: Path, bin_dir: Path | None
) -> None:
    """Data of another Postgres is left alone, and the error says what can be done."""
    async with _running(made_home, bin_dir):
        pass
    version = made_home / "data" / "PG_VERSION"
    right = version.read_text()
    version.write_text("9\n")
    try:
        with pytest.raises(errors.LocalStackError, match=r"PostgreSQL 9.*pg_dump"):
            async with _running(made_home, bin_dir):
                pass
    finally:
        version.write_text(right)


async def test_lost_password_is_not_replaced_by_another(
    made_home: Path, bin_dir: Path | None
) -> None:
    """Without the secret the data cannot be used; a new secret would not help."""
    async with _running(made_home, bin_dir):
        pass
    (made_home / "password").rename(made_home / "elsewhere")
    try:
        with pytest.raises(errors.LocalStackError, match="password is missing"):
            async with _running(made_home, bin_dir):
                pass
    finally:
        (made_home / "elsewhere").rename(made_home / "password")


async def test_unfinished_data_folder_is_made_anew(empty_home: Path, bin_dir: Path | None) -> None:
    """A program killed while it made the data folder does not spoil the next start."""
    (empty_home / "data.unfinished").mkdir()
    (empty_home / "data.unfinished" / "PG_VERSION").write_text("18\n")

    async with _running(empty_home, bin_dir) as local:
        assert await _ask(local.url(cluster.SUPERUSER), "select 'made'") == "made"


async def test_copied_programs_run_where_they_are_copied_to(empty_home: Path) -> None:
    """Programs and libraries keep working together when they move out of a closed folder."""
    folder = cluster.copy_binaries(empty_home)
    owner = await account.find_server_account()

    for program in ("postgres", "initdb", "pg_ctl", "psql"):
        finished = await owner.run(folder / program, "--version")
        assert finished.returncode == 0, finished.output


async def test_folder_without_programs_is_refused(made_home: Path, tmp_path: Path) -> None:
    """Another folder than a server's is an error that says what is needed."""
    with pytest.raises(errors.LocalStackError, match="PAGEWARDEN_DATABASE_URL"):
        async with _running(made_home, tmp_path):
            pass
