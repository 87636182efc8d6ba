"""Pages that make their child fail, and the pages that follow."""

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
from pagewarden.exports import sandbox
from pagewarden.ocr import limits, page_image, pages, reader
from pagewarden.ocr.sandbox import host
from tests.ocr import drawn
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TIGHT = limits.Limits(memory_bytes=256 << 20, page_cpu_seconds=0.1, page_seconds=5)

REASONS = {
    "abort": "the process reading it died (Aborted)",
    "hang": "timed out after 5 s",
    "unexpected": "ZeroDivisionError",
    "loop": "timed out after",
    "crash": "the process reading it died (Segmentation fault)",
    "damaged": "the page is damaged; scan it again",
    "memory": "exceeds the memory limit of 268 MB",
    "invalid-numbers": "returned invalid numbers",
    "refused": "will not read this page",
}

PATIENCE = 60
PROGRAM = """
import asyncio, sys, tempfile
from pagewarden.ocr import reader

async def main(scan, folder):
    tempfile.tempdir = folder
    async with reader.Reader(engine="fake", processes=2) as made:
        async for page in made.read(scan):
            print(page.number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""

# Runs the tasks of children in a process that has loaded what the zygote loads.
IMPORTS = """
import json, os, sys
from pathlib import Path
from pagewarden import errors
from pagewarden.ocr import limits
from pagewarden.ocr.sandbox import tasks, zygote

documents, folder = Path(sys.argv[1]), Path(sys.argv[2])
what = {"engine": "null", "profile": "balanced", "task": None, "preload": json.loads(sys.argv[3])}
engine = zygote.load(what, folder).engine
os.chdir(folder)
before = set(sys.modules)

def load(module, name, document, **options):
    options["name"] = document.name
    return tasks.SandboxTask(f"pagewarden.{module}", name, options).load()

def run(task, **message):
    return task.run(tasks.TaskRequest(message, b"", limits.Limits(), engine))

for path in documents.iterdir():
    languages = {"password": None, "languages": []}
    reading = load("ocr.pipeline", "ReadDocument", path, path=str(path), **languages)
    try:
        count = run(reading)[0]["page_count"]
    except errors.EncryptedFile:
        continue
    packed = [run(reading, page=number)[1] for number in range(1, count + 1)]
    Path("pages").write_bytes(b"".join(page + b"\\n" for page in packed))
    run(load("ocr.page_image", "PageImageTask", path, path=str(path), number=1))
    export = {"format_name": "pdf", "pages": "pages", "source": str(path), **languages}
    run(load("exports.sandbox", "ExportTask", path, **export))
print("imported:", *set(sys.modules) - before)
"""


@pytest.fixture(scope="module")
async def fake() -> AsyncIterator[reader.Reader]:
    """A reader with the fake engine."""
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
    """Count the open descriptors of this process."""
    gc.collect()
    return len(names("/proc/self/fd"))


def names(folder: Path | str) -> set[str]:
    """List the names in a folder."""
    return {entry.name for entry in os.scandir(folder)}


@pytest.fixture(scope="module")
async def outcomes(fake: reader.Reader) -> dict[str, list[pages.ReadPage]]:
    """The pages of one document for each failure, all read concurrently."""
    found = await asyncio.gather(*(read(fake, "white", way, "white", "white") for way in REASONS))
    return dict(zip(REASONS, found, strict=True))


@pytest.mark.parametrize("way", REASONS)
async def test_bad_page_does_not_affect_others(
    outcomes: dict[str, list[pages.ReadPage]], way: str
) -> None:
    """The others are read in order; the error has file, page and reason."""
    found = outcomes[way]

    assert [page.number for page in found] == [1, 2, 3, 4]
    assert [page.source for page in found] == ["ocr", "failed", "ocr", "ocr"]
    assert str(found[1].error).startswith("scan.tif, page 2: ")
    assert REASONS[way] in str(found[1].error)


async def test_cpu_time_is_limited_on_a_slow_machine() -> None:
    """A page may wait long; the limit applies to its CPU time."""
    bounds = limits.Limits(page_cpu_seconds=0.1, page_seconds=PATIENCE)
    async with reader.Reader(engine="fake", limits=bounds) as made:
        (page,) = await read(made, "loop")
    assert "timed out after 0.1 s of CPU time" in str(page.error)


async def test_document_fails_after_three_deadly_pages(fake: reader.Reader) -> None:
    """The error has the reason."""
    with pytest.raises(
        errors.ReaderKilled, match=r"scan\.tif, page \d: .* 3 pages have failed like this"
    ):
        await read(fake, "crash", "crash", "white", "crash", "crash", "crash")


async def test_outage_of_a_service_does_not_fail_the_page(fake: reader.Reader) -> None:
    """EngineUnavailable is raised, so that the document is released without a failed attempt."""
    with pytest.raises(errors.EngineUnavailable) as caught:
        await read(fake, "white", "engine-away")
    assert caught.value.outage


async def test_models_of_a_language_are_loaded_once(fake: reader.Reader) -> None:
    """The zygote loads them before it forks, and reuses them for a second document."""
    for _ in range(2):
        source = fake.read(drawn.document("languages"), languages=["deu", "fra"])
        assert [page.text async for page in source] == ["deu fra"]


async def test_unsavable_characters_are_replaced(fake: reader.Reader) -> None:
    """Neither a lone surrogate nor a NUL is returned."""
    (page,) = await read(fake, "unsavable-text")
    assert page.text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


async def test_child_is_confined(fake: reader.Reader) -> None:
    """No writing outside its folder, no signals, no network, no secrets, no descriptors."""
    (page,) = await read(fake, "probe")
    assert page.text == ""


async def test_nothing_outlives_its_document(fake: reader.Reader) -> None:
    """Even a process in its own session is killed, and there is no zombie."""
    await read(fake, "white")
    before = processes()
    (page,) = await read(fake, "orphan")

    assert page.text not in names("/proc")
    assert processes() == before


async def test_failed_documents_leave_nothing_behind(fake: reader.Reader) -> None:
    """Processes, descriptors and files do not accumulate."""
    folder = fake.folder
    await read(fake, "white", "crash")
    before = processes(), descriptors(), names(folder)
    for way in ("crash", "damaged", "abort", "white") * 2:
        await read(fake, "white", way)

    assert (processes(), descriptors(), names(folder)) == before


async def test_closing_the_generator_stops_reading(fake: reader.Reader) -> None:
    """It kills the children immediately, including hanging ones."""
    before = processes()
    found = fake.read(drawn.document("white", "hang", "hang"))
    async with contextlib.aclosing(found):
        assert (await anext(found)).number == 1
        assert processes() > before
    assert processes() == before


async def test_cancellation_stops_reading(fake: reader.Reader) -> None:
    """The same for a task that is cancelled while it waits for a page."""
    before = processes()
    first = asyncio.Event()

    async def work() -> None:
        async for _ in fake.read(drawn.document("white", "hang")):
            first.set()

    task = asyncio.create_task(work())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes() == before


async def test_a_killed_zygote_is_replaced() -> None:
    """The document is continued by children of the new zygote, and no page is lost."""
    others = processes()
    async with reader.Reader(engine="fake", processes=1) as made:
        (zygote,) = processes() - others
        numbers = []
        async for page in made.read(drawn.numbered(30)):
            numbers.append(page.number)
            if page.number == 3:
                os.kill(zygote, signal.SIGKILL)
    assert numbers == list(range(1, 31))


async def test_an_idle_zygote_ends_and_the_next_document_starts_another() -> None:
    """The folder stays meanwhile, because a document may be in it already."""
    others = processes()
    async with host.Sandbox("fake", "balanced", idle_seconds=0) as made:
        version = made.version
        (made.folder / "document").touch()
        await polling.wait_until(lambda: processes() == others)

        async with made.child(limits.Limits()):
            assert processes() > others
        await polling.wait_until(lambda: processes() == others)

        assert made.version == version != ""
        assert names(made.folder) == {"document"}
    assert not made.folder.exists()


async def test_killing_the_parent_ends_all_processes(tmp_path: Path) -> None:
    """Not even kill -9 leaves a child or a folder behind."""
    scan = tmp_path / "scan.tif"
    scan.write_bytes(drawn.document("white", "hang"))
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
async def test_parent_killed_while_starting_leaves_no_folder(
    tmp_path: Path, has_spoken: bool
) -> None:
    """The zygote detects it while it loads, even if its last message was not read."""
    folder = tmp_path / "host"
    folder.mkdir()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "pagewarden.ocr.sandbox.zygote"]
        load = json.dumps({"engine": None, "profile": "balanced", "task": None, "preload": []})
        process = await asyncio.create_subprocess_exec(
            *(*command, str(theirs.fileno()), str(folder), load),
            pass_fds=(theirs.fileno(),),
        )
    if has_spoken:
        await asyncio.to_thread(select.select, [ours], [], [], PATIENCE)
    ours.close()

    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert not folder.exists()


async def test_children_need_no_further_imports(tmp_path: Path) -> None:
    """For any file type, no child imports modules."""
    documents, folder = tmp_path / "documents", tmp_path / "folder"
    documents.mkdir()
    folder.mkdir()
    for name, data in {**sample_files.make_all_kinds(), "letter.png": drawn.letter()}.items():
        (documents / name).write_bytes(data)
    preload = json.dumps([*sandbox.PRELOAD, *page_image.PRELOAD])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPORTS, documents, folder, preload), stdout=subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode().strip() == "imported:"


async def test_engine_that_cannot_be_loaded_explains_why() -> None:
    """The error is raised before any document is touched."""
    with pytest.raises(errors.EngineNotInstalled, match="the models are missing; install them"):
        await reader.Reader(engine="fake-unloadable").__aenter__()
    with pytest.raises(
        errors.EngineNotInstalled, match="unknown engine 'rapyd'; choose one of rapid,"
    ):
        reader.Reader(engine="rapyd")
