"""Run a contestant and measure text, speed, CPU and memory; measure the steps of our pipeline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import psutil

from benchmarks.ocr import contestants, corpus, scoring
from pagewarden import errors
from pagewarden.ocr import engines, limits
from pagewarden.ocr.document import open_document
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import orientation
from pagewarden.ocr.layout import order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_MEMORY_INTERVAL_SECONDS = 1.0


class ContestantFailedError(errors.PagewardenError):
    """A contestant failed before it had read all pages."""


@dataclass(slots=True)
class Result:
    """The measurements of a contestant.

    `seconds` has the wall time of each collection, after the models are loaded; `start_seconds` is
    the time before. `cpu_seconds` is the CPU time of all processes, start included; it is more
    reliable than wall time on a shared machine. `peak_bytes` is the peak memory of all processes,
    with shared pages counted once.
    """

    contestant: str
    texts: dict[str, str] = field(default_factory=dict)
    scores: dict[str, scoring.Score] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    start_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def make_scans(pages: Sequence[corpus.Page], folder: Path) -> None:
    """Write the PDFs that some contestants read."""
    for collection in contestants.group_by_collection(pages, folder):
        corpus.make_scan(collection.pages, collection.scan)


async def run_contestant(
    contestant: str,
    pages: Sequence[corpus.Page],
    folders: tuple[Path, Path],
    announce: Callable[[str], None],
) -> Result:
    """Have a contestant read all pages; `folders` are those of the corpus and of the scans."""
    result, before = Result(contestant), _read_children_cpu_seconds()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", contestants.__name__, contestant, *map(str, folders)),
        *(page.name for page in pages),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    sampling = asyncio.create_task(_sample_memory(process.pid, result))
    stderr = asyncio.create_task(_read_all(process.stderr))
    try:
        await _read_results(process.stdout, result, announce)
        if await process.wait():
            raise ContestantFailedError(f"{contestant} failed: {(await stderr)[-2000:]}")
    finally:
        sampling.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    result.cpu_seconds = _read_children_cpu_seconds() - before
    # Scoring uses a core, so it waits until the contestant has finished.
    result.scores = {page.name: scoring.score(page, result.texts[page.name]) for page in pages}
    return result


async def _read_results(
    out: asyncio.StreamReader | None,
    result: Result,
    announce: Callable[[str], None],
) -> None:
    start = time.perf_counter()
    while out is not None and (line := await out.readline()):
        message = json.loads(line)
        if "page" in message:
            announce(message["page"])
            result.texts[message["page"]] = message["text"]
        else:
            result.seconds[message["collection"]] = message["seconds"]
    result.start_seconds = time.perf_counter() - start - sum(result.seconds.values())


async def _read_all(stream: asyncio.StreamReader | None) -> str:
    return (await stream.read()).decode(errors="replace") if stream else ""


async def _sample_memory(pid: int, result: Result) -> None:
    """Record the peak memory of a process tree until cancelled."""
    while True:
        result.peak_bytes = max(result.peak_bytes, await asyncio.to_thread(_read_tree_memory, pid))
        await asyncio.sleep(_MEMORY_INTERVAL_SECONDS)


def _read_children_cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _read_tree_memory(pid: int) -> int:
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        return sum(
            _read_process_memory(each.pid) for each in (root, *root.children(recursive=True))
        )
    return 0


def _read_process_memory(pid: int) -> int:
    """Return the proportional set size in bytes; psutil would read every mapping instead."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


# Time of each step --------------------------------------------------------------------------------
# CPU seconds of each step of our pipeline, on one core.


P = ParamSpec("P")
T = TypeVar("T")

# Step times vary little between pages; this number takes a minute or two.
STEP_PAGES = 20

STEPS = ("open", "straighten", "recognise", "order")


class StepClock:
    """Adds up the CPU seconds of each step."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)

    def time(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and add its CPU time to a step."""
        start = time.process_time()
        result = work(*args, **kwargs)
        self.seconds[step] += time.process_time() - start
        return result


def time_steps(
    name: str, profile: str, pages: Sequence[corpus.Page], announce: Callable[[str], None]
) -> Mapping[str, float]:
    """Read the pages one by one in this process; return the CPU seconds of each step."""
    clock = StepClock()
    reader = engines.load_engine(name, profile)
    for page in pages:
        image = clock.time("open", _open_page, page.path)
        straight = clock.time("straighten", orientation.straighten, image)
        hints = base.PageHints((page.language,))
        found = clock.time("recognise", reader.recognise, straight.image, hints)
        clock.time("order", order.sort_in_reading_order, found.lines)
        announce(page.name)
    return clock.seconds


def _open_page(path: Path) -> base.PageImage:
    document = open_document(path, limits.Limits())
    try:
        return document.open_page(1).render()
    finally:
        document.close()
