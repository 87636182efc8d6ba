"""pagewarden import, as a person types it; killed, interrupted, and started again."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from pagewarden import client, errors
from pagewarden.cli.import_ import journal, run
from pagewarden.cli.import_.scan import SourceTree, StabilityTracker
from tests.client import breaking
from tests.client.desk import PATIENCE
from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.client.desk import Desk


def scan(number: int) -> bytes:
    """Make an image that is unlike all others."""
    return house.PNG + str(number).encode()


def fill(desk: Desk, *names: str) -> Path:
    """Put files into a folder, all older than a minute."""
    for number, name in enumerate(names):
        write(desk.file(f"in/{name}", scan(number)))
    return desk.folder / "files" / "in"


def write(path: Path, content: bytes | None = None) -> None:
    """Write a file as if it had rested for a minute."""
    if content is not None:
        path.write_bytes(content)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))


@dataclass
class Round:
    """An import in this process, with a clock that moves when somebody sleeps."""

    desk: Desk
    folder: Path
    again: bool = False
    patterns: tuple[str, ...] = ()
    summary: run.ImportSummary = field(default_factory=run.ImportSummary)
    time: float = 0.0
    naps: list[float] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    async def sleep(self, seconds: float) -> None:
        """Let time go by."""
        self.naps.append(seconds)
        self.time += seconds
        self.meanwhile()

    async def run(
        self,
        server: client.Client,
        act: Callable[[run.ImportRun], Awaitable[None]] = run.ImportRun.run_once,
    ) -> run.ImportSummary:
        """Import once, or as the test says."""
        place = self.desk.folder / "state" / "imports.sqlite3"
        with journal.open_journal("inbox", place) as known:
            scanner = run.Scanner(
                SourceTree(self.folder, self.patterns, house.UPLOAD_LIMIT),
                known,
                StabilityTracker(3),
                self.summary,
                again=self.again,
                now=lambda: self.time,
            )
            progress = run.ImportProgress(Console(file=io.StringIO()))
            taking = run.ImportRun(scanner, server, client.UploadOptions(), progress, self.sleep)
            await taking.require_same_server()
            await act(taking)
        return self.summary

    def counts(self) -> dict[str, int]:
        """Count what became of the files."""
        kinds = {kind.name: self.summary.count(kind) for kind in run.FileResult}
        return {name: number for name, number in kinds.items() if number}


async def test_a_tree_goes_in_once_and_equal_names_stay_apart(desk: Desk) -> None:
    """A second time nothing is sent; what changed is a new version, what is deleted stays."""
    folder = fill(desk, "scan.png", "a/scan.png", "a/b/scan.png", "notes.txt", ".hidden.png")
    (folder / "notes.txt").write_text("words")
    await desk.sign_in()
    first = await desk.typed("import", folder, "--rest", "0")
    assert first.code == 0, first.err
    assert "3 files uploaded, 0 already on the server" in first.err
    assert "skipped: 1 hidden" in first.err
    assert "skipped: 1 of unsupported type; --include '*' uploads them" in first.err
    names = {"in__scan.png", "in__a__scan.png", "in__a__b__scan.png"}
    assert {row["name"] for row in await desk.house.documents()} == names

    write(folder / "a" / "scan.png", scan(77))
    (folder / "scan.png").unlink()
    dry = await desk.typed("import", folder, "--rest", "0", "--dry-run")
    assert dry.out == f"{folder / 'a' / 'scan.png'}\tin__a__scan.png\n"
    second = await desk.typed("import", folder, "--rest", "0")
    assert "1 file uploaded, 1 already on the server" in second.err
    rows = await desk.house.documents()
    versions = {(row["name"], row["document_version"], row["deleted_at"] is None) for row in rows}
    assert versions == {
        ("in__scan.png", 1, True),
        ("in__a__b__scan.png", 1, True),
        ("in__a__scan.png", 1, False),
        ("in__a__scan.png", 2, True),
    }


async def test_killed_at_any_moment_every_file_arrives_once(desk: Desk) -> None:
    """Started again and again, it goes on; the server has each file once, and no file too many."""
    count = 40
    folder = fill(desk, *(f"{number % 3}/{number}.png" for number in range(count)))
    await desk.sign_in()
    for goal in (3, 20):
        async with desk.started("import", folder) as process:
            await desk.has_documents(goal, process)
            process.kill()
            await process.communicate()
    assert process.returncode == -signal.SIGKILL
    # What the last one was sending when it was killed is still on its way into the database.
    last = await desk.typed("import", folder)
    assert last.code == 0, last.err
    again = await desk.typed("import", folder)
    assert f"0 files uploaded, {count} already on the server" in again.err

    rows = await desk.house.documents()
    assert len(rows) == len({row["name"] for row in rows}) == count
    assert {row["document_version"] for row in rows} == {1}
    await polling.wait_until(lambda: len(desk.house.stored()) == count)


async def test_ctrl_c_is_told_and_the_next_time_goes_on(desk: Desk) -> None:
    """Exit code 130, and how much is in."""
    folder = fill(desk, *(f"{number}.png" for number in range(300)))
    await desk.sign_in()
    async with desk.started("import", folder) as process:
        await desk.has_documents(1, process)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 130
    assert b"run the command again to resume" in err
    assert b"Traceback" not in err


async def test_a_watched_folder_takes_in_what_comes(desk: Desk) -> None:
    """New files and new versions, until Ctrl-C, which is no error."""
    folder = fill(desk, "a.png")
    await desk.sign_in()
    words = ("import", folder, "--watch", "--rest", "0.2", "--poll", "0.05")
    async with desk.started(*words) as process:
        await desk.has_documents(1, process)
        (folder / "new").mkdir()
        (folder / "new" / "b.png").write_bytes(scan(5))
        await desk.has_documents(2, process)
        (folder / "a.png").write_bytes(scan(6))
        await desk.has_documents(3, process)
        process.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, err
    versions = {(row["name"], row["document_version"]) for row in await desk.house.documents()}
    assert versions == {("in__a.png", 1), ("in__a.png", 2), ("in__new__b.png", 1)}


async def test_a_file_that_grows_is_taken_when_it_rests(desk: Desk) -> None:
    """Nothing of it is sent before; one that never rests is left out, and that is said."""
    folder = fill(desk, "a.png")
    growing_file = desk.file("in/growing.png", scan(1))
    ahead = growing_file.stat().st_mtime + 1000  # so that only what is progress counts

    def grow() -> None:
        with growing_file.open("ab") as file:
            file.write(b"more")
        os.utime(growing_file, (ahead, ahead))

    grow()
    taken = Round(desk, folder, meanwhile=grow)
    async with desk.connected() as ada:
        summary = await taken.run(ada)
        assert taken.counts() == {"UPLOADED": 1, "SKIPPED": 1}
        assert "skipped: 1 still being written" in "\n".join(summary.lines())
        taken = Round(desk, folder)
        await taken.run(ada)
    assert (taken.naps, taken.counts()) == ([3], {"EXISTING": 1, "UPLOADED": 1})
    sizes = {row["size_bytes"] for row in await desk.house.documents()}
    assert growing_file.stat().st_size in sizes
    assert len(sizes) == 2


async def test_one_that_is_refused_stops_no_other(desk: Desk) -> None:
    """Failures are listed with their reasons, and are not tried again before they change."""
    folder = fill(desk, "a.png", "b.exe", "c.png")
    write(folder / "b.exe", b"\x7fELF" + b"\0" * 99)
    taken = Round(desk, folder, patterns=("*",))
    async with desk.connected() as ada:
        summary = await taken.run(ada)
        assert taken.counts() == {"UPLOADED": 2, "FAILED": 1}
        assert "is an executable file" in "\n".join(summary.lines())
        calls = len(desk.house.stored())
        write(folder / "b.exe", scan(9))
        await taken.run(ada)
    assert taken.counts() == {"UPLOADED": 3}
    assert len(desk.house.stored()) == calls + 1


async def test_a_server_that_goes_away_is_tried_again_later(desk: Desk) -> None:
    """Failed uploads are reported; a watch sends it when the server is back."""
    folder = fill(desk, *(f"{number}.png" for number in range(8)))
    async with breaking.line(desk.house.url, cuts=0) as line, desk.connected(line.url) as ada:
        taken = Round(desk, folder)

        def mend() -> None:
            if taken.time > 60:
                line.cuts = 0
            if taken.counts() == {"UPLOADED": 8}:
                raise asyncio.CancelledError

        taken.meanwhile = mend
        line.cuts, line.after = 1000, 0
        await taken.run(ada)
        assert taken.counts() == {"FAILED": 8}
        with pytest.raises(asyncio.CancelledError):
            await taken.run(ada, lambda taking: taking.watch(5))
    assert taken.counts() == {"UPLOADED": 8}
    assert len(await desk.house.documents()) == 8


async def test_a_journal_about_another_server_is_not_believed(desk: Desk) -> None:
    """A server that was set up anew has nothing, whatever the journal says; --again sends it."""
    folder = fill(desk, "a.png", "b.png")
    async with desk.connected() as ada:
        await Round(desk, folder).run(ada)
        await desk.house.factory.conn.execute("delete from documents")
        with pytest.raises(errors.SettingsError, match="--again"):
            await Round(desk, folder).run(ada)
        taken = Round(desk, folder, again=True)
        await taken.run(ada)
    assert taken.counts() == {"UPLOADED": 2}


async def test_a_session_that_ends_ends_the_import(desk: Desk) -> None:
    """There is no sense in trying the others; the next time goes on."""
    folder = fill(desk, *(f"{number}.png" for number in range(8)))
    await desk.sign_in()
    session = desk.sessions.get(desk.house.url)
    assert session is not None
    desk.sessions.save(desk.house.url, replace(session, access_token="stale"))
    await desk.house.factory.conn.execute("delete from auth.sessions")
    async with client.open_client(desk.chosen(), sessions=desk.sessions) as ada:
        with pytest.raises(errors.NotSignedIn, match="has ended"):
            await Round(desk, folder).run(ada)
    assert await desk.house.documents() == []
