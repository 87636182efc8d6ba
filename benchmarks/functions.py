"""python -m benchmarks functions, dispatch: one invocation per document, and their deaths.

The functions are served by several processes: dispatchers, which `ocr-worker` is called on, and
invocations, which share one port, as behind a load balancer. The engine only waits.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import multiprocessing
import os
import random
import secrets
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import psycopg
import typer
import uvicorn
from psycopg.rows import dict_row
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from benchmarks import system
from pagewarden import services
from pagewarden import settings as settings_module
from pagewarden.documents import Page, ReadingRun, dispatch
from pagewarden.functions import app
from pagewarden.local import stack
from pagewarden.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from pagewarden.documents import Claim, DocumentReader

FAN_OUT_SECONDS = 1.0
_INVOCATION_PROCESSES = 4
_DISPATCHERS = 2
_TIMEOUT_SECONDS = 1800.0
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05

# Of the test with deaths: many short pages, so that processes die everywhere.
_PAGES = 3
_PAGE_SECONDS = 0.1
QUEUED = 30
_LOCK_SECONDS = 2.0
_HEARTBEAT_SECONDS = 0.5
_SWEEP_SECONDS = 0.5
_PAUSE_SECONDS = (0.0, 0.4)
_GIVEN_BACK_SECONDS = 1

out = Console(highlight=False)


def command(
    *,
    documents: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 50,
    concurrency: Annotated[int, typer.Option(min=1, help="Invocations at once.")] = 10,
) -> None:
    """Have documents of a second each read by one invocation each, and one after another."""
    table = Table("invocations at once", "documents", "seconds", title="Fan-out")
    for at_once in (concurrency, 1):
        seconds = asyncio.run(measure_fan_out(documents, at_once))
        table.add_row(str(at_once), str(documents), f"{seconds:.1f}")
    out.print(table)


def kill(
    *,
    kills: Annotated[int, typer.Option(min=1, help="Number of killed processes.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 1,
) -> None:
    """Kill dispatchers and invocations at random while they read documents."""
    figures = asyncio.run(_kill(kills, seed))
    table = Table("figure", "value", title="Dispatch with deaths")
    for name, value in dataclasses.asdict(figures).items():
        table.add_row(name.replace("_", " "), str(value))
    out.print(table)
    if figures.problems:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a process that serves functions."""

    url: str
    key: str
    home: Path
    port: int
    functions_port: int
    concurrency: int
    pages: int
    page_seconds: float
    lock_seconds: float = settings_module.LOCK_SECONDS
    heartbeat_seconds: float = settings_module.HEARTBEAT_SECONDS

    @property
    def journal(self) -> Path:
        """The file with a line for each reading that began."""
        return self.home / "journal"

    def get_mark(self, pid: int) -> Path:
        """Return the file that tells that a process accepts calls."""
        return self.home / f"ready-{pid}"


@dataclass(frozen=True, slots=True)
class SleepingReader:
    """Reads every document in the same time, and writes down each reading that begins."""

    options: ServerOptions

    async def select_reader(self, claim: Claim) -> DocumentReader:
        """Return this reader."""
        del claim
        return self

    async def get_run(self, claim: Claim) -> ReadingRun:
        """Return the same engine and version for all processes."""
        del claim
        return ReadingRun("sleeping", "1")

    async def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Wait, then yield a page."""
        with self.options.journal.open("a") as file:  # one write, so lines are never mixed
            file.write(f"{claim.id} {claim.lock_token}\n")
        for number in range(1, self.options.pages + 1):
            if number not in done:
                await asyncio.sleep(self.options.page_seconds)
                yield Page(number, text=f"page {number}", confidence=0.9, of=self.options.pages)


def serve(options: ServerOptions) -> None:
    """Serve all functions until the process is killed."""
    os.environ.setdefault("PAGEWARDEN_LOG_LEVEL", "error")
    logs.configure()
    # What could not be handed over is tried again within the test.
    dispatch.RETRY_SECONDS = _GIVEN_BACK_SECONDS
    asyncio.run(_serve(options))


async def _serve(options: ServerOptions) -> None:
    settings = settings_module.Settings(
        home=options.home,
        database_url=SecretStr(options.url),
        supabase_key=SecretStr(options.key),
        jwt_secret=SecretStr(options.key),
        dispatch="http",
        dispatch_concurrency=options.concurrency,
        functions_url=f"http://127.0.0.1:{options.functions_port}",
        lock_seconds=options.lock_seconds,
        heartbeat_seconds=options.heartbeat_seconds,
    )
    async with services.open_services(settings) as current:
        sleeping = dataclasses.replace(current, reader=SleepingReader(options))
        config = uvicorn.Config(app.create_app(sleeping), log_config=None, access_log=False)
        with _listen(options.port) as listener:
            options.get_mark(os.getpid()).touch()
            await uvicorn.Server(config).serve(sockets=[listener])


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    """Listen on a port that several processes share."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        yield listener


@dataclass(slots=True)
class Servers:
    """The processes that serve functions: dispatchers and invocations."""

    dispatchers: list[ServerOptions]
    invocations: list[ServerOptions]
    processes: dict[int, ForkServerProcess] = field(default_factory=dict)

    @property
    def options(self) -> list[ServerOptions]:
        """All processes; the first ones are dispatchers."""
        return [*self.dispatchers, *self.invocations]

    def start(self, number: int) -> None:
        """Start a process, again if it was killed."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        process = context.Process(target=serve, args=(self.options[number],), daemon=True)
        process.start()
        self.processes[number] = process

    def is_ready(self, number: int) -> bool:
        """Tell whether a process accepts calls."""
        pid = self.processes[number].pid
        return pid is not None and self.options[number].get_mark(pid).exists()

    def find_ready(self) -> list[int]:
        """Return the processes that accept calls."""
        return [number for number in range(len(self.options)) if self.is_ready(number)]

    def kill(self, number: int) -> None:
        """Kill a process."""
        self.processes[number].kill()
        self.processes[number].join()


@dataclass(slots=True)
class Functions:
    """A temporary database, and the functions that read from it."""

    servers: Servers
    conn: psycopg.AsyncConnection[dict[str, Any]]
    client: httpx.AsyncClient
    home: Path

    async def add(self, count: int) -> None:
        """Queue images; their files are never fetched."""
        await self.conn.execute(
            """
            select public.add_documents(
              (select c.id from public.cases as c limit 1),
              (select jsonb_agg(jsonb_build_object('name', gen_random_uuid()))
               from generate_series(1, %s)),
              'image'
            )
            """,
            (count,),
        )

    async def count(self, condition: bytes) -> int:
        """Count documents."""
        query = b"select count(*) as count from public.documents where " + condition
        row = await (await self.conn.execute(query)).fetchone()
        return int(row["count"]) if row else 0

    async def is_done(self) -> bool:
        """Tell whether all documents are completed."""
        return await self.count(b"ocr_status <> 'completed'") == 0

    async def work(self, dispatcher: ServerOptions) -> dict[str, Any]:
        """Call ocr-worker on a dispatcher; empty while it is dead."""
        url = f"http://127.0.0.1:{dispatcher.port}/functions/v1/ocr-worker"
        try:
            answer = await self.client.post(url, json={"budget_seconds": 600})
        except httpx.HTTPError:
            return {}
        found: dict[str, Any] = answer.json()
        return found

    async def wait_until_ready(self) -> None:
        """Wait until every process answers."""
        for number in range(len(self.servers.options)):
            await self.wait_until_started(number)

    async def wait_until_started(self, number: int) -> None:
        """Wait until a process answers."""

        async def is_ready() -> bool:
            return self.servers.is_ready(number)

        async with asyncio.timeout(_START_SECONDS):
            await _wait_until(is_ready)

    async def is_reading(self) -> bool:
        """Tell whether a process is there to be killed; see that there is something to read."""
        if await self.count(b"listed_in = 'queue'") < QUEUED:
            await self.add(QUEUED)
        return (
            bool(self.servers.find_ready()) and await self.count(b"ocr_status = 'processing'") > 0
        )


async def _wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while not await is_so():  # noqa: ASYNC110  # other processes
        await asyncio.sleep(_POLL_SECONDS)


@contextlib.asynccontextmanager
async def open_functions(
    *,
    dispatchers: int,
    invocations: int,
    **options: Any,  # noqa: ANN401  # of ServerOptions
) -> AsyncIterator[Functions]:
    """Start a temporary database and the processes; stop them at the end."""
    with system.create_folder() as folder:
        settings = settings_module.Settings(home=folder / "home")
        async with stack.open_migrated(settings) as server:
            key = secrets.token_urlsafe(48)
            shared, *ports = system.free_ports(1 + dispatchers)
            processes = [
                ServerOptions(server.url, key, folder / "home", port, shared, **options)
                for port in (*ports, *[shared] * invocations)
            ]
            servers = Servers(processes[:dispatchers], processes[dispatchers:])
            async with contextlib.AsyncExitStack() as resources:
                conn = await resources.enter_async_context(
                    await psycopg.AsyncConnection.connect(
                        server.url, autocommit=True, row_factory=dict_row
                    )
                )
                await conn.execute(
                    """select set_config('request.jwt.claims', '{"role": "service_role"}', false)"""
                )
                await conn.execute("select public.create_case('benchmark')")
                for number in range(len(processes)):
                    servers.start(number)
                    resources.callback(servers.kill, number)
                client = await resources.enter_async_context(
                    httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False)
                )
                functions = Functions(servers, conn, client, folder / "home")
                await functions.wait_until_ready()
                client.headers["apikey"] = key
                yield functions


async def measure_fan_out(
    documents: int, concurrency: int, *, seconds: float = FAN_OUT_SECONDS
) -> float:
    """Return the seconds from the call of ocr-worker to its answer."""
    async with open_functions(
        dispatchers=1,
        invocations=_INVOCATION_PROCESSES,
        concurrency=concurrency,
        pages=1,
        page_seconds=seconds,
    ) as functions:
        (dispatcher,) = functions.servers.dispatchers
        await functions.add(concurrency)
        await functions.work(dispatcher)  # connections are open, and code is loaded
        await functions.add(documents)
        began = time.monotonic()
        answer = await functions.work(dispatcher)
        elapsed = time.monotonic() - began
    if answer.get("completed") != documents:
        raise RuntimeError(f"ocr-worker completed {answer} instead of {documents} documents")
    return elapsed


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of the documents."""

    killed_dispatchers: int
    killed_invocations: int
    documents: int
    claims: int
    expired_locks: int
    answers: dict[str, int]
    seconds: float
    problems: list[str]


async def _kill(kills: int, seed: int) -> Figures:
    async with open_functions(
        dispatchers=_DISPATCHERS,
        invocations=_INVOCATION_PROCESSES,
        concurrency=10,
        pages=_PAGES,
        page_seconds=_PAGE_SECONDS,
        lock_seconds=_LOCK_SECONDS,
        heartbeat_seconds=_HEARTBEAT_SECONDS,
    ) as functions:
        return await kill_processes(functions, kills, random.Random(seed))  # noqa: S311  # no secret


async def kill_processes(functions: Functions, kills: int, choices: random.Random) -> Figures:
    """Kill random processes and start them again; then wait until all documents have ended."""
    # A document that is hit often is no dead letter here, and does not wait.
    await functions.conn.execute(
        "update public.lanes set max_rescues = 1000, backoff_seconds = 0 where lane = 'image'"
    )
    answers: collections.Counter[str] = collections.Counter()
    began, dead = time.monotonic(), collections.Counter[bool]()
    servers, ended = functions.servers, asyncio.Event()
    background = [asyncio.create_task(_sweep(functions, ended))]
    background.extend(
        asyncio.create_task(_call(functions, dispatcher, answers, ended))
        for dispatcher in servers.dispatchers
    )
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        for _ in range(kills):
            await _wait_until(functions.is_reading)
            await asyncio.sleep(choices.uniform(*_PAUSE_SECONDS))
            number = choices.choice(servers.find_ready())
            await asyncio.to_thread(servers.kill, number)
            servers.start(number)
            dead[number < len(servers.dispatchers)] += 1
        await functions.wait_until_ready()
        await _wait_until(functions.is_done)
    seconds = time.monotonic() - began
    ended.set()
    await asyncio.gather(*background)
    row = await (
        await functions.conn.execute(
            "select count(*) as documents, sum(attempts)::int as claims, "
            "(select count(*)::int from public.ocr_errors where kind = 'lock_expired') as expired "
            "from public.documents"
        )
    ).fetchone()
    assert row is not None  # noqa: S101  # an aggregate
    return Figures(
        dead[True],
        dead[False],
        row["documents"],
        row["claims"],
        row["expired"],
        dict(answers),
        round(seconds, 1),
        [problem async for problem in find_problems(functions)],
    )


async def _call(
    functions: Functions,
    dispatcher: ServerOptions,
    answers: collections.Counter[str],
    ended: asyncio.Event,
) -> None:
    """Call a dispatcher again and again, as its schedule and its wake-ups do."""
    while not ended.is_set():
        answer = await functions.work(dispatcher)
        answers.update({name: count for name, count in answer.items() if isinstance(count, int)})
        await asyncio.sleep(0.1)


async def _sweep(functions: Functions, ended: asyncio.Event) -> None:
    """Take back expired locks, as the schedule does."""
    async with await psycopg.AsyncConnection.connect(
        functions.servers.options[0].url, autocommit=True
    ) as conn:
        while not ended.is_set():
            await conn.execute("select public.sweep_documents()")
            await asyncio.sleep(_SWEEP_SECONDS)


async def find_problems(functions: Functions) -> AsyncIterator[str]:
    """Yield what is lost, double or miscounted."""
    rows = await functions.conn.execute(
        """
        select d.id, format(
          '%s: %s, %s results, %s pages, attempts %s, expired locks %s, failures %s',
          d.id, d.ocr_status, r.results, p.pages, d.attempts, e.expired, d.retry_count
        ) as problem
        from public.documents as d
        cross join lateral (
          select count(*) as results from public.ocr_processing_logs as r where r.document_id = d.id
        ) as r
        cross join lateral (
          select count(*) as pages from public.ocr_pages as p where p.document_id = d.id
        ) as p
        cross join lateral (
          select count(*) as expired from public.ocr_errors as e
          where e.document_id = d.id and e.kind = 'lock_expired'
        ) as e
        where d.ocr_status <> 'completed' or r.results <> 1 or p.pages <> d.page_count
          or d.attempts <> e.expired + 1 or d.retry_count <> 0
        union all
        select document_id, format('%s: %s', document_id, invariant)
        from private.invariant_violations()
        """
    )
    async for row in rows:
        yield row["problem"]
    begun = collections.Counter(
        functions.servers.options[0].journal.read_text("ascii").splitlines()
    )
    for reading, count in begun.items():
        if count > 1:
            yield f"read {count} times under one lock token: {reading}"
