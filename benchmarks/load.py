"""python -m benchmarks load: uploads, questions and pages together, to the knee and for long."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import io
import json
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import httpx
import psutil
import psycopg
import typer
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks import dashboard
from benchmarks import system as systems
from pagewarden import database
from pagewarden.database import tables
from pagewarden.local import cluster, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence


KNEE_SECONDS = 0.5
FIRST_RATE = 10.0
GROWTH = 1.4
MOST_STEPS = 16
SAMPLE_SECONDS = 10.0

# Documents of the filling have no files, so nobody is to read them.
_NOT_TO_BE_READ = """
set session_replication_role = replica;
delete from private.queue;
delete from private.claims;
update documents
set ocr_status = 'cancelled', listed_in = 'aside', lock_token = null, locked_by = null,
  locked_at = null, lock_expires_at = null, attempt_deadline = null
where id in (select id from documents where listed_in = 'queue' or ocr_status = 'processing');
insert into private.queue_parked select ocr_status, id from documents where ocr_status = 'cancelled'
on conflict do nothing;
set session_replication_role = origin;
"""
_SOME = """
select id::text from documents where ocr_status = 'completed' order by created_at desc limit 500
"""

out = Console(highlight=False)


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=100, help="How many documents the database has before.")
    ] = 1_000_000,
    step_seconds: Annotated[
        float, typer.Option(min=1, help="How long each rate lasts on the way to the knee.")
    ] = 15,
    minutes: Annotated[
        float, typer.Option(min=0, help="How long half of that is kept up, to see memory.")
    ] = 60,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Load a system of its own to the knee and for long, with a full database.

    Of a hundred requests 10 are uploads, 60 ask how far a document is, 30 open a page of the
    dashboard. They come at random moments, so many a second, whether or not earlier ones were
    answered; the rate grows until 1 of 100 takes more than half a second. Then half of that is
    kept up, and the memory of every process is looked at.
    """
    found = run(documents=documents, step_seconds=step_seconds, minutes=minutes)
    if output is not None:
        output.write_text(found, encoding="utf-8")


@dataclass(slots=True)
class Soak:
    """Megabytes of each part, sample by sample, while a rate was kept up."""

    rate: float
    minutes: float
    steps: list[Step] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)

    def growth(self, part: str) -> float:
        """Say by how much the last quarter of a part's samples is above the second one.

        The first one fills caches.
        """
        samples = self.memory[part]
        quarter = max(len(samples) // 4, 1)
        early = statistics.median(samples[quarter : 2 * quarter] or samples)
        return statistics.median(samples[-quarter:]) / early - 1


def run(*, documents: int, step_seconds: float, minutes: float) -> str:
    """Measure, show tables, and return all figures as JSON."""
    steps, soak = asyncio.run(_measure(documents, step_seconds, minutes))
    knee = _knee(steps)
    _show(steps, documents, knee)
    if soak.steps:
        _show_soak(soak)
    return json.dumps(
        {
            "documents": documents,
            "knee": knee.rate,
            "steps": [_figures(step) for step in steps],
            "soak": {
                "rate": soak.rate,
                "minutes": soak.minutes,
                "memory": soak.memory,
                "steps": [_figures(step) for step in soak.steps],
            },
        },
        indent=1,
    )


def _figures(step: Step) -> dict[str, object]:
    return {
        "rate": step.rate,
        "answered": step.answered,
        "per_second": step.answered / step.lasted,
        "p50": step.percentile(0.5),
        "p99": step.percentile(0.99),
        "errors": dict(step.errors),
    }


async def _measure(documents: int, step_seconds: float, minutes: float) -> tuple[list[Step], Soak]:
    async with systems.running(engine="null", gpu_engine="null") as system:
        with out.status(f"filling a database with {documents:,} documents"):
            ids = await _fill(system, documents)
        async with _crowd(system, ids) as crowd:
            steps = await _to_the_knee(crowd, step_seconds)
            soak = await _soak(crowd, system, _knee(steps).rate / 2, minutes)
    return steps, soak


async def _fill(system: systems.System, documents: int) -> list[str]:
    async with (
        server.running(system.home) as local,
        await database.connect_direct(local.url()) as connection,
    ):
        lanes = [row["lane"] for row in await connection.select(tables.lanes, columns="lane")]
        for lane in lanes:
            await connection.pause_lane(lane=lane, reason="a measurement")
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await dashboard.fill(conn, documents)
            await conn.execute(_NOT_TO_BE_READ)
            await conn.execute("analyze")
            ids = [row[0] for row in await (await conn.execute(_SOME)).fetchall()]
        for lane in lanes:
            await connection.resume_lane(lane=lane)
    return ids


@contextlib.asynccontextmanager
async def _crowd(system: systems.System, ids: list[str]) -> AsyncIterator[Crowd]:
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=100)
    options = {"base_url": system.url, "timeout": 30.0, "trust_env": False, "limits": limits}
    async with (
        httpx.AsyncClient(headers={"apikey": system.secret_key}, **options) as programs,  # type: ignore[arg-type]
        httpx.AsyncClient(headers={"Origin": system.url}, **options) as browser,  # type: ignore[arg-type]
    ):
        await dashboard.sign_in(browser, "\n".join(system.said))
        paths = ["/overview", "/documents", "/cases", "/review", "/tasks", "/dead-letters"]
        paths += [f"/documents/{document}" for document in ids[:50]]
        chance = random.Random(1)  # noqa: S311  # the same every time
        yield Crowd(programs, browser, paths, known(ids), chance)


async def _to_the_knee(crowd: Crowd, seconds: float) -> list[Step]:
    """Raise the rate until it hurts."""
    await crowd.keep_up(FIRST_RATE, seconds)  # whatever is loaded once is loaded
    steps: list[Step] = []
    rate = FIRST_RATE
    for _ in range(MOST_STEPS):
        with out.status(f"{rate:.0f} requests a second"):
            steps.append(await crowd.keep_up(rate, seconds))
        if not _is_well(steps[-1]):
            break
        rate *= GROWTH
    return steps


def _is_well(step: Step) -> bool:
    return step.percentile(0.99) <= KNEE_SECONDS and not step.errors


def _knee(steps: list[Step]) -> Step:
    """Find the highest rate at which all was well; the first one if none was."""
    well = [step for step in steps if _is_well(step)]
    return well[-1] if well else steps[0]


async def _soak(crowd: Crowd, system: systems.System, rate: float, minutes: float) -> Soak:
    soak = Soak(rate, minutes)
    ends = time.monotonic() + 60 * minutes
    while time.monotonic() < ends:
        left = (ends - time.monotonic()) / 60
        with out.status(f"{rate:.0f} requests a second for {left:.0f} more minutes"):
            soak.steps.append(await crowd.keep_up(rate, SAMPLE_SECONDS))
        for part, megabytes in _memory(system).items():
            soak.memory.setdefault(part, []).append(megabytes)
    return soak


def _memory(system: systems.System) -> dict[str, float]:
    """Look at each part, with the children that it has at the moment left out."""
    found = {}
    for part in systems.PARTS:
        with contextlib.suppress(LookupError, psutil.Error):
            found[part] = system.part(part).memory_info().rss / 1e6
    with contextlib.suppress(psutil.Error):
        backends = system.database().children()
        found["postgres, a backend"] = max(b.memory_info().rss for b in backends) / 1e6
    return found


def _show(steps: list[Step], documents: int, knee: Step) -> None:
    table = Table(
        "requests/s", "answered/s", "p50, ms", "p99, ms", "uploads p99", "questions p99",
        "pages p99", "errors", title=f"{documents:,} documents",
    )  # fmt: skip
    for step in steps:
        kinds = (UPLOADS, QUESTIONS, PAGES)
        p99s = [_p99(step.seconds.get(kind, [])) for kind in kinds]
        errors = ", ".join(f"{count} {what}" for what, count in step.errors.items())
        table.add_row(
            f"{step.rate:.0f}",
            f"{step.answered / step.lasted:.0f}",
            *(f"{1000 * value:.0f}" for value in (step.percentile(0.5), step.percentile(0.99))),
            *(f"{1000 * value:.0f}" for value in p99s),
            errors,
        )
    out.print(table)
    out.print(
        f"the knee: {knee.rate:.0f} requests a second, p99 {1000 * knee.percentile(0.99):.0f} ms"
    )


def _p99(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def _show_soak(soak: Soak) -> None:
    table = Table(
        "process", "MB after a quarter", "MB at the end", "growth",
        title=f"{soak.minutes:g} minutes at {soak.rate:.0f} requests a second",
    )  # fmt: skip
    for part, samples in soak.memory.items():
        quarter = max(len(samples) // 4, 1)
        ends = (samples[quarter] if len(samples) > quarter else samples[0], samples[-1])
        table.add_row(part, *(f"{value:.0f}" for value in ends), f"{soak.growth(part):+.1%}")
    out.print(table)
    answered = sum(step.answered for step in soak.steps)
    errors = sum(sum(step.errors.values()) for step in soak.steps)
    worst = max(step.percentile(0.99) for step in soak.steps)
    out.print(
        f"{answered:,} answers, {errors} errors; p99 of the worst ten seconds {1000 * worst:.0f} ms"
    )


# Requests -----------------------------------------------------------------------------------------
# Requests as many people and programs make them: at random moments, whoever else is waiting.


UPLOADS, QUESTIONS, PAGES = "uploads", "questions", "pages"
MIX = {UPLOADS: 10, QUESTIONS: 60, PAGES: 30}
MOST_WAITING = 2_000
_RECENT = 500


@dataclass(slots=True)
class Step:
    """What came of a rate: seconds of each kind of request, from when it was due to its answer."""

    rate: float
    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    errors: collections.Counter[str] = field(default_factory=collections.Counter)
    lasted: float = 0.0

    @property
    def answered(self) -> int:
        """Count the requests that were answered well."""
        return sum(map(len, self.seconds.values()))

    def percentile(self, share: float) -> float:
        """Give the seconds that this share of all answers took at most."""
        ordered = sorted(value for values in self.seconds.values() for value in values)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@dataclass(slots=True)
class Crowd:
    """Those who ask: programs with the key, and a person whose browser has a session."""

    programs: httpx.AsyncClient
    browser: httpx.AsyncClient
    paths: Sequence[str]
    known: collections.deque[str]
    chance: random.Random
    uploaded: int = 0

    async def keep_up(self, rate: float, seconds: float) -> Step:
        """Make so many requests a second for so long, and wait for their answers."""
        step, waiting = Step(rate), set[asyncio.Task[None]]()
        begun = due = time.perf_counter()
        while due < begun + seconds:
            due += self.chance.expovariate(rate)
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            if len(waiting) >= MOST_WAITING:
                step.errors["too many wait"] += 1
                continue
            task = asyncio.create_task(self._request(step, due))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        step.lasted = time.perf_counter() - begun
        return step

    async def _request(self, step: Step, due: float) -> None:
        kind = self.chance.choices(list(MIX), list(MIX.values()))[0]
        make: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
            UPLOADS: self._upload, QUESTIONS: self._ask, PAGES: self._look,
        }  # fmt: skip
        try:
            answer = await make[kind]()
        except httpx.HTTPError as exc:
            step.errors[type(exc).__name__] += 1
            return
        if answer.is_success:
            step.seconds[kind].append(time.perf_counter() - due)
        else:
            step.errors[f"{kind}: {answer.status_code}"] += 1

    async def _upload(self) -> httpx.Response:
        self.uploaded += 1
        name = f"load-{self.uploaded}.png"
        files = {"file": (name, _picture(self.uploaded))}
        answer = await self.programs.post("/functions/v1/upload-to-dropbox", files=files)
        if answer.is_success:
            self.known.append(answer.json()["document_id"])
        return answer

    async def _ask(self) -> httpx.Response:
        document = self.known[self.chance.randrange(len(self.known))]
        return await self.programs.get(f"/functions/v1/documents/{document}")

    async def _look(self) -> httpx.Response:
        return await self.browser.get(self.paths[self.chance.randrange(len(self.paths))])


def known(ids: Sequence[str]) -> collections.deque[str]:
    """Keep the last documents, of which somebody asks."""
    return collections.deque(ids, maxlen=_RECENT)


def _picture(number: int) -> bytes:
    saved = io.BytesIO()
    Image.new("L", (100 + number % 400, 100 + number // 400 % 400), 255).save(saved, "PNG")
    return saved.getvalue() + number.to_bytes(8, "big")
