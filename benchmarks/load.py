"""python -m benchmarks load: uploads, status requests and pages up to saturation, then a soak."""

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


MAX_P99_SECONDS = 0.5
FIRST_RATE = 10.0
GROWTH = 1.4
MAX_STEPS = 16
SAMPLE_SECONDS = 10.0

# The filled-in documents have no files, so workers must not claim them.
_WITHDRAW = """
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
_RECENT_IDS = """
select id::text from documents where ocr_status = 'completed' order by created_at desc limit 500
"""

out = Console(highlight=False)


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=100, help="Number of documents in the database at the start.")
    ] = 1_000_000,
    step_seconds: Annotated[
        float, typer.Option(min=1, help="Duration of each rate until saturation.")
    ] = 15,
    minutes: Annotated[
        float, typer.Option(min=0, help="Duration of the soak at half the highest rate.")
    ] = 60,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Load a temporary system with a full database up to saturation, then soak it.

    Of 100 requests 10 are uploads, 60 ask for the status of a document, 30 open a page of the
    dashboard. They arrive at random moments at a given rate, whether or not earlier ones were
    answered. The rate grows until the p99 latency exceeds half a second; then half of the highest
    sustained rate is kept up, and the memory of every process is sampled.
    """
    figures = run(documents=documents, step_seconds=step_seconds, minutes=minutes)
    if output is not None:
        output.write_text(figures, encoding="utf-8")


@dataclass(slots=True)
class Soak:
    """The memory of each part in megabytes, sampled while a rate was kept up."""

    rate: float
    minutes: float
    steps: list[Step] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)

    def growth(self, part: str) -> float:
        """Return by how much the last quarter of the samples exceeds the second quarter.

        The first quarter fills caches.
        """
        samples = self.memory[part]
        quarter = max(len(samples) // 4, 1)
        early = statistics.median(samples[quarter : 2 * quarter] or samples)
        return statistics.median(samples[-quarter:]) / early - 1


def run(*, documents: int, step_seconds: float, minutes: float) -> str:
    """Measure, print tables, and return all figures as JSON."""
    steps, soak = asyncio.run(_measure(documents, step_seconds, minutes))
    knee = _find_knee(steps)
    _print_steps(steps, documents, knee)
    if soak.steps:
        _print_soak(soak)
    return json.dumps(
        {
            "documents": documents,
            "knee": knee.rate,
            "steps": [_to_figures(step) for step in steps],
            "soak": {
                "rate": soak.rate,
                "minutes": soak.minutes,
                "memory": soak.memory,
                "steps": [_to_figures(step) for step in soak.steps],
            },
        },
        indent=1,
    )


def _to_figures(step: Step) -> dict[str, object]:
    return {
        "rate": step.rate,
        "answered": step.answered,
        "per_second": step.answered / step.duration,
        "p50": step.percentile(0.5),
        "p99": step.percentile(0.99),
        "errors": dict(step.errors),
    }


async def _measure(documents: int, step_seconds: float, minutes: float) -> tuple[list[Step], Soak]:
    async with systems.open_system(engine="null", gpu_engine="null") as system:
        with out.status(f"filling a database with {documents:,} documents"):
            ids = await _fill(system, documents)
        async with _open_clients(system, ids) as clients:
            steps = await _find_saturation(clients, step_seconds)
            soak = await _soak(clients, system, _find_knee(steps).rate / 2, minutes)
    return steps, soak


async def _fill(system: systems.System, documents: int) -> list[str]:
    async with (
        server.open_server(system.home) as local,
        await database.connect_direct(local.url()) as connection,
    ):
        lanes = [row["lane"] for row in await connection.select(tables.lanes, columns="lane")]
        for lane in lanes:
            await connection.pause_lane(lane=lane, reason="benchmark")
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await dashboard.fill(conn, documents)
            await conn.execute(_WITHDRAW)
            await conn.execute("analyze")
            ids = [row[0] for row in await (await conn.execute(_RECENT_IDS)).fetchall()]
        for lane in lanes:
            await connection.resume_lane(lane=lane)
    return ids


@contextlib.asynccontextmanager
async def _open_clients(system: systems.System, ids: list[str]) -> AsyncIterator[Clients]:
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=100)
    options = {"base_url": system.url, "timeout": 30.0, "trust_env": False, "limits": limits}
    async with (
        httpx.AsyncClient(headers={"apikey": system.secret_key}, **options) as programs,  # type: ignore[arg-type]
        httpx.AsyncClient(headers={"Origin": system.url}, **options) as browser,  # type: ignore[arg-type]
    ):
        await dashboard.sign_in(browser, "\n".join(system.output))
        paths = ["/overview", "/documents", "/cases", "/review", "/tasks", "/dead-letters"]
        paths += [f"/documents/{document}" for document in ids[:50]]
        chance = random.Random(1)  # noqa: S311  # the same every time
        yield Clients(programs, browser, paths, make_recent_queue(ids), chance)


async def _find_saturation(clients: Clients, seconds: float) -> list[Step]:
    """Raise the rate until the system is saturated."""
    await clients.keep_up(FIRST_RATE, seconds)  # warm-up
    steps: list[Step] = []
    rate = FIRST_RATE
    for _ in range(MAX_STEPS):
        with out.status(f"{rate:.0f} requests a second"):
            steps.append(await clients.keep_up(rate, seconds))
        if not _is_sustained(steps[-1]):
            break
        rate *= GROWTH
    return steps


def _is_sustained(step: Step) -> bool:
    return step.percentile(0.99) <= MAX_P99_SECONDS and not step.errors


def _find_knee(steps: list[Step]) -> Step:
    """Return the step of the highest sustained rate; the first one if there is none."""
    sustained = [step for step in steps if _is_sustained(step)]
    return sustained[-1] if sustained else steps[0]


async def _soak(clients: Clients, system: systems.System, rate: float, minutes: float) -> Soak:
    soak = Soak(rate, minutes)
    deadline = time.monotonic() + 60 * minutes
    while time.monotonic() < deadline:
        left = (deadline - time.monotonic()) / 60
        with out.status(f"{rate:.0f} requests a second for {left:.0f} more minutes"):
            soak.steps.append(await clients.keep_up(rate, SAMPLE_SECONDS))
        for part, megabytes in _read_memory(system).items():
            soak.memory.setdefault(part, []).append(megabytes)
    return soak


def _read_memory(system: systems.System) -> dict[str, float]:
    """Return the megabytes of each part without its children, and of the largest backend."""
    memory = {}
    for part in systems.PARTS:
        with contextlib.suppress(LookupError, psutil.Error):
            memory[part] = system.part(part).memory_info().rss / 1e6
    with contextlib.suppress(psutil.Error):
        backends = system.database().children()
        memory["postgres, a backend"] = max(b.memory_info().rss for b in backends) / 1e6
    return memory


def _print_steps(steps: list[Step], documents: int, knee: Step) -> None:
    table = Table(
        "requests/s", "responses/s", "p50, ms", "p99, ms", "uploads p99", "status p99",
        "pages p99", "errors", title=f"{documents:,} documents",
    )  # fmt: skip
    for step in steps:
        kinds = (UPLOADS, STATUS, PAGES)
        p99s = [_compute_p99(step.seconds.get(kind, [])) for kind in kinds]
        errors = ", ".join(f"{count} {what}" for what, count in step.errors.items())
        table.add_row(
            f"{step.rate:.0f}",
            f"{step.answered / step.duration:.0f}",
            *(f"{1000 * value:.0f}" for value in (step.percentile(0.5), step.percentile(0.99))),
            *(f"{1000 * value:.0f}" for value in p99s),
            errors,
        )
    out.print(table)
    out.print(
        f"highest sustained rate: {knee.rate:.0f} requests/s, "
        f"p99 {1000 * knee.percentile(0.99):.0f} ms"
    )


def _compute_p99(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def _print_soak(soak: Soak) -> None:
    table = Table(
        "process", "MB after a quarter", "MB at the end", "growth",
        title=f"{soak.minutes:g} minutes at {soak.rate:.0f} requests a second",
    )  # fmt: skip
    for part, samples in soak.memory.items():
        quarter = max(len(samples) // 4, 1)
        early = samples[quarter] if len(samples) > quarter else samples[0]
        table.add_row(part, f"{early:.0f}", f"{samples[-1]:.0f}", f"{soak.growth(part):+.1%}")
    out.print(table)
    answered = sum(step.answered for step in soak.steps)
    errors = sum(sum(step.errors.values()) for step in soak.steps)
    worst = max(step.percentile(0.99) for step in soak.steps)
    out.print(
        f"{answered:,} responses, {errors} errors; "
        f"p99 of the worst {SAMPLE_SECONDS:.0f} seconds: {1000 * worst:.0f} ms"
    )


# Requests -----------------------------------------------------------------------------------------
# An open workload: requests arrive at random moments, whether or not earlier ones were answered.


UPLOADS, STATUS, PAGES = "uploads", "status", "pages"
MIX = {UPLOADS: 10, STATUS: 60, PAGES: 30}
MAX_PENDING = 2_000
_RECENT = 500


@dataclass(slots=True)
class Step:
    """The results at a rate: seconds of each request from its due time to its response, by kind."""

    rate: float
    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    errors: collections.Counter[str] = field(default_factory=collections.Counter)
    duration: float = 0.0

    @property
    def answered(self) -> int:
        """Return the number of successful requests."""
        return sum(map(len, self.seconds.values()))

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share of the requests was answered."""
        ordered = sorted(value for values in self.seconds.values() for value in values)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@dataclass(slots=True)
class Clients:
    """The clients: programs with the service key, and a browser with a session."""

    programs: httpx.AsyncClient
    browser: httpx.AsyncClient
    paths: Sequence[str]
    make_recent_queue: collections.deque[str]
    chance: random.Random
    uploaded: int = 0

    async def keep_up(self, rate: float, seconds: float) -> Step:
        """Send requests at this rate for these seconds, and wait for their responses."""
        step, pending = Step(rate), set[asyncio.Task[None]]()
        start = due = time.perf_counter()
        while due < start + seconds:
            due += self.chance.expovariate(rate)
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            if len(pending) >= MAX_PENDING:
                step.errors["too many pending"] += 1
                continue
            task = asyncio.create_task(self._request(step, due))
            pending.add(task)
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)
        step.duration = time.perf_counter() - start
        return step

    async def _request(self, step: Step, due: float) -> None:
        kind = self.chance.choices(list(MIX), list(MIX.values()))[0]
        requests: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
            UPLOADS: self._upload, STATUS: self._get_status, PAGES: self._open_page,
        }  # fmt: skip
        try:
            response = await requests[kind]()
        except httpx.HTTPError as exc:
            step.errors[type(exc).__name__] += 1
            return
        if response.is_success:
            step.seconds[kind].append(time.perf_counter() - due)
        else:
            step.errors[f"{kind}: {response.status_code}"] += 1

    async def _upload(self) -> httpx.Response:
        self.uploaded += 1
        name = f"load-{self.uploaded}.png"
        files = {"file": (name, _draw_page(self.uploaded))}
        response = await self.programs.post("/functions/v1/upload-to-dropbox", files=files)
        if response.is_success:
            self.make_recent_queue.append(response.json()["document_id"])
        return response

    async def _get_status(self) -> httpx.Response:
        document = self.make_recent_queue[self.chance.randrange(len(self.make_recent_queue))]
        return await self.programs.get(f"/functions/v1/documents/{document}")

    async def _open_page(self) -> httpx.Response:
        return await self.browser.get(self.paths[self.chance.randrange(len(self.paths))])


def make_recent_queue(ids: Sequence[str]) -> collections.deque[str]:
    """Return a queue of the latest documents, for status requests."""
    return collections.deque(ids, maxlen=_RECENT)


def _draw_page(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (100 + number % 400, 100 + number // 400 % 400), 255).save(buffer, "PNG")
    return buffer.getvalue() + number.to_bytes(8, "big")
