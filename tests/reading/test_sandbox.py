"""What a hostile page can do, and what becomes of the others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import sample_files
from pagewarden import errors
from pagewarden.reading import limits, pages, reader
from tests.reading import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TIGHT = limits.Limits(memory_bytes=256 << 20, page_cpu_seconds=0.1, page_seconds=5)

REASONS = {
    "abort": "the process that was reading it died (Aborted)",
    "asleep": "not done after 5 s",
    "buggy": "ZeroDivisionError",
    "busy": "not done after",
    "crash": "the process that was reading it died (Segmentation fault)",
    "damaged": "the page is broken; scan it again",
    "glutton": "takes more than the 268 MB of memory it may use",
    "nowhere": "gave no numbers",
    "refusing": "will not read this page",
}

PATIENCE = 60
PROGRAM = """
import asyncio, sys, tempfile
from pagewarden.reading import reader

async def main(scan, folder):
    tempfile.tempdir = folder
    async with reader.Reader(engine="fake", processes=2) as made:
        async for page in made.read(scan):
            print(page.number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""

IMPORTS = """
import sys
from pathlib import Path
from pagewarden import errors, exports
from pagewarden.reading import engine, limits, opening, pipeline
from pagewarden.reading.sandbox import zygote

what = {"engine": "null", "profile": "balanced", "duty": None}
null = zygote.load(what, Path(sys.argv[1]).parent).engine
before = set(sys.modules)
for path in Path(sys.argv[1]).iterdir():
    try:
        document = opening.open_document(path, limits.Limits())
    except errors.EncryptedFile:
        continue
    found = [
        pipeline.read_page(document.page(number), number, null, engine.Hints())
        for number in range(1, document.page_count + 1)
    ]
    exports.write("pdf", found, path, Path(sys.argv[1]).with_name("export"), name=path.name)
print("imported:", *set(sys.modules) - before)
"""


@pytest.fixture(scope="module")
async def fake() -> AsyncIterator[reader.Reader]:
    """One reader whose engine fails as each page asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGEWARDEN_SUPABASE_KEY", "secret")
        async with reader.Reader(engine="fake", limits=TIGHT, processes=4) as made:
            yield made


async def read(source: reader.Reader, *ways: str) -> list[pages.ReadPage]:
    """Read a document of such pages."""
    return [page async for page in source.read(drawn.document(*ways), name="scan.tif")]


def processes(root: int | None = None) -> set[int]:
    """Find every process below this one, dead ones included."""
    found, todo = set[int](), [root or os.getpid()]
    while todo:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{todo.pop()}/task").iterdir():
                below = set(map(int, (task / "children").read_text().split()))
                found |= below
                todo += below
    return found


def descriptors() -> int:
    """Count what this process has open."""
    gc.collect()
    return len(names("/proc/self/fd"))


def names(folder: Path | str) -> set[str]:
    """Name what is in a folder."""
    return {entry.name for entry in os.scandir(folder)}


@pytest.fixture(scope="module")
async def outcomes(fake: reader.Reader) -> dict[str, list[pages.ReadPage]]:
    """What became of one document for each way to fail, all read at the same time."""
    found = await asyncio.gather(*(read(fake, "white", way, "white", "white") for way in REASONS))
    return dict(zip(REASONS, found, strict=True))


@pytest.mark.parametrize("way", REASONS)
async def test_a_bad_page_costs_only_itself(
    outcomes: dict[str, list[pages.ReadPage]], way: str
) -> None:
    """The others are read, in order; it says which file and page, and why."""
    found = outcomes[way]

    assert [page.number for page in found] == [1, 2, 3, 4]
    assert [page.source for page in found] == ["ocr", "failed", "ocr", "ocr"]
    assert str(found[1].error).startswith("scan.tif, page 2: ")
    assert REASONS[way] in str(found[1].error)


async def test_computing_is_limited_also_when_the_machine_is_slow() -> None:
    """A page may wait long and compute little; one that computes for ever is ended."""
    bounds = limits.Limits(page_cpu_seconds=0.1, page_seconds=PATIENCE)
    async with reader.Reader(engine="fake", limits=bounds) as made:
        (page,) = await read(made, "busy")
    assert "not done after 0.1 s of computing" in str(page.error)


async def test_three_deadly_pages_are_enough(fake: reader.Reader) -> None:
    """A document that keeps killing its readers is given up with the reason."""
    with pytest.raises(errors.ReaderKilled, match=r"scan\.tif, page \d: .* page no\. 3 to end"):
        await read(fake, "crash", "crash", "white", "crash", "crash", "crash")


async def test_a_service_that_is_away_is_not_the_page_s_fault(fake: reader.Reader) -> None:
    """It is raised as what it is, so the document can be given back uncounted."""
    with pytest.raises(errors.EngineAway) as caught:
        await read(fake, "white", "away")
    assert caught.value.outage


async def test_models_of_a_language_are_loaded_once_for_all(fake: reader.Reader) -> None:
    """The zygote is told the languages before it forks, so a second document finds them there."""
    for _ in range(2):
        source = fake.read(drawn.document("polyglot"), languages=["deu", "fra"])
        assert [page.text async for page in source] == ["deu fra"]


async def test_letters_that_cannot_be_saved_are_marked(fake: reader.Reader) -> None:
    """Neither half a surrogate pair nor a NUL gets out."""
    (page,) = await read(fake, "babbling")
    assert page.text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


async def test_a_child_finds_every_door_locked(fake: reader.Reader) -> None:
    """No writing outside its folder, no signals, no network, no secrets, no descriptors."""
    (page,) = await read(fake, "burglar")
    assert page.text == ""


async def test_nothing_outlives_its_document(fake: reader.Reader) -> None:
    """Even a process that hid in a session of its own is gone, and nobody is a zombie."""
    await read(fake, "white")
    before = processes()
    (page,) = await read(fake, "escape")

    assert page.text not in names("/proc")
    assert processes() == before


async def test_bad_documents_leave_nothing_behind(fake: reader.Reader) -> None:
    """Neither processes nor descriptors nor files pile up."""
    folder = fake._host.folder  # noqa: SLF001  # nobody else needs to know it
    await read(fake, "white", "crash")
    before = processes(), descriptors(), names(folder)
    for way in ("crash", "damaged", "abort", "white") * 2:
        await read(fake, "white", way)

    assert (processes(), descriptors(), names(folder)) == before


async def test_who_stops_listening_stops_the_reading(fake: reader.Reader) -> None:
    """Closing the pages kills the children at once, sleeping ones too."""
    before = processes()
    found = fake.read(drawn.document("white", "asleep", "asleep"))
    async with contextlib.aclosing(found):
        assert (await anext(found)).number == 1
        assert processes() > before
    assert processes() == before


async def test_a_cancelled_reading_is_gone(fake: reader.Reader) -> None:
    """The same for a task that is cancelled while it waits for a page."""
    before = processes()
    first = asyncio.Event()

    async def work() -> None:
        async for _ in fake.read(drawn.document("white", "asleep")):
            first.set()

    task = asyncio.create_task(work())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes() == before


async def test_a_killed_zygote_is_replaced() -> None:
    """The document goes on in children of a new one, and no page is lost."""
    others = processes()
    async with reader.Reader(engine="fake", processes=1) as made:
        (zygote,) = processes() - others
        numbers = []
        async for page in made.read(drawn.numbered(30)):
            numbers.append(page.number)
            if page.number == 3:
                os.kill(zygote, signal.SIGKILL)
    assert numbers == list(range(1, 31))


async def test_a_killed_parent_takes_everything_along(tmp_path: Path) -> None:
    """Not even kill -9 leaves a child or a folder behind."""
    scan = tmp_path / "scan.tif"
    scan.write_bytes(drawn.document("white", "asleep"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, scan, tmp_path, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"1\n"
    ends = [os.pidfd_open(pid) for pid in processes(process.pid)]
    process.kill()
    await process.communicate()

    assert len(ends) >= 2
    for end in ends:
        assert (await asyncio.to_thread(select.select, [end], [], [], PATIENCE))[0]
        os.close(end)
    assert names(tmp_path) == {"scan.tif"}


@pytest.mark.parametrize("has_spoken", [True, False])
async def test_a_parent_killed_before_it_has_heard_all_leaves_no_folder(
    tmp_path: Path, has_spoken: bool
) -> None:
    """The zygote notices it while it loads, and also when its last words were not read."""
    folder = tmp_path / "host"
    folder.mkdir()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "pagewarden.reading.sandbox.zygote"]
        load = json.dumps({"engine": None, "profile": "balanced", "duty": None})
        process = await asyncio.create_subprocess_exec(
            *(*command, str(theirs.fileno()), str(folder), load),
            pass_fds=(theirs.fileno(),),
        )
    if has_spoken:
        await asyncio.to_thread(select.select, [ours], [], [], PATIENCE)
    ours.close()

    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert not folder.exists()


async def test_children_find_everything_imported(tmp_path: Path) -> None:
    """Whatever the kind of the document, no child spends its time on importing modules."""
    for name, data in {**sample_files.all_kinds(), "letter.png": drawn.letter()}.items():
        (tmp_path / name).write_bytes(data)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IMPORTS, tmp_path, stdout=subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode().strip() == "imported:"


async def test_an_engine_that_cannot_be_loaded_says_why() -> None:
    """The error is raised before any document is touched."""
    with pytest.raises(errors.EngineMissing, match="the models are missing; install them"):
        await reader.Reader(engine="fake-unloadable").__aenter__()
    with pytest.raises(errors.EngineMissing, match="no engine 'rapyd'; choose one of rapid,"):
        reader.Reader(engine="rapyd")
