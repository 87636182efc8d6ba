"""Run one contestant after the other: what each reads, how fast, and what it takes; step times."""

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
from pagewarden.reading import engine, engines, limits, opening, order, upright

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_MEMORY_EVERY_SECONDS = 1.0


class ContestantFailedError(errors.PagewardenError):
    """A contestant gave up before it had read all pages."""


@dataclass(slots=True)
class Result:
    """What a contestant did.

    seconds are for each collection, with the models loaded; start_seconds is what came before.
    cpu_seconds is what all its processes took of all cores, from start to end, and tells more
    than the clock where others use the machine too. peak_bytes is the most memory they had at a
    time, shared parts counted once.
    """

    contestant: str
    texts: dict[str, str] = field(default_factory=dict)
    scores: dict[str, scoring.Score] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    start_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def make_scans(pages: Sequence[corpus.Page], folder: Path) -> None:
    """Make the PDFs that some of the contestants read."""
    for collection in contestants.collections(pages, folder):
        corpus.make_scan(collection.pages, collection.scan)


async def hold(
    contestant: str,
    pages: Sequence[corpus.Page],
    places: tuple[Path, Path],
    announce: Callable[[str], None],
) -> Result:
    """Let a contestant read all pages; places are the corpus and the folder of scans."""
    result, before = Result(contestant), _cpu_of_children()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", contestants.__name__, contestant, *map(str, places)),
        *(page.name for page in pages),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    watch = asyncio.create_task(_watch(process.pid, result))
    complaints = asyncio.create_task(_read_all(process.stderr))
    try:
        await _listen(process.stdout, result, announce)
        if await process.wait():
            raise ContestantFailedError(f"{contestant} failed: {(await complaints)[-2000:]}")
    finally:
        watch.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    result.cpu_seconds = _cpu_of_children() - before
    # Not before it has ended, for it would take a share of the cores.
    result.scores = {page.name: scoring.score(page, result.texts[page.name]) for page in pages}
    return result


async def _listen(
    out: asyncio.StreamReader | None,
    result: Result,
    announce: Callable[[str], None],
) -> None:
    begun = time.perf_counter()
    while out is not None and (line := await out.readline()):
        said = json.loads(line)
        if "page" in said:
            announce(said["page"])
            result.texts[said["page"]] = said["text"]
        else:
            result.seconds[said["collection"]] = said["seconds"]
    result.start_seconds = time.perf_counter() - begun - sum(result.seconds.values())


async def _read_all(stream: asyncio.StreamReader | None) -> str:
    return (await stream.read()).decode(errors="replace") if stream else ""


async def _watch(pid: int, result: Result) -> None:
    """Add up the memory of the process and all it started, again and again."""
    while True:
        result.peak_bytes = max(result.peak_bytes, await asyncio.to_thread(_memory, pid))
        await asyncio.sleep(_MEMORY_EVERY_SECONDS)


def _cpu_of_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _memory(pid: int) -> int:
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        return sum(_own_memory(each.pid) for each in (root, *root.children(recursive=True)))
    return 0


def _own_memory(pid: int) -> int:
    """Read its share of the memory in bytes; psutil would go through every mapping for it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


# Time of each step --------------------------------------------------------------------------------
# Where the time of a page goes in our pipeline, in seconds of CPU on one core.


P = ParamSpec("P")
T = TypeVar("T")

# The steps are much the same on every page; so many take a minute or two.
STEP_PAGES = 20

STEPS = ("open", "straighten", "recognise", "order")


class StepClock:
    """Adds up the seconds of each step."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(STEPS, 0.0)

    def time(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do some work, and note how long it took."""
        begun = time.process_time()
        result = work(*args, **kwargs)
        self.spent[step] += time.process_time() - begun
        return result


def time_steps(
    name: str, profile: str, pages: Sequence[corpus.Page], announce: Callable[[str], None]
) -> Mapping[str, float]:
    """Read the pages one by one in this process, and add up the seconds of each step."""
    clock = StepClock()
    reader = engines.make(name, profile)
    for page in pages:
        image = clock.time("open", _open, page.path)
        straight = clock.time("straighten", upright.straighten, image)
        hints = engine.Hints((page.language,))
        found = clock.time("recognise", reader.recognise, straight.image, hints)
        clock.time("order", order.in_reading_order, found.lines)
        announce(page.name)
    return clock.spent


def _open(path: Path) -> engine.PageImage:
    document = opening.open_document(path, limits.Limits())
    try:
        return document.page(1).render()
    finally:
        document.close()
