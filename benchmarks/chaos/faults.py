"""Inject a fault every second or so, from a schedule that the seed decides."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import time
from typing import TYPE_CHECKING

import httpx
import psutil
import psycopg

from benchmarks.chaos import event_log
from benchmarks.chaos import plan as plans
from benchmarks.chaos.system import SYSTEM
from pagewarden import errors
from pagewarden.database import listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from typing import LiteralString

    from benchmarks.chaos.system import ChaosSystem
    from benchmarks.chaos.traffic import Users


_FUNCTIONS = ("ocr-worker", "pdf-worker")
_BUDGET_SECONDS = 10
_CUT = """
select count(pg_terminate_backend(a.pid)) from pg_stat_activity as a
where a.application_name ~ '^chaos-[0-9]+$' and (%s::text is null or a.application_name = %s)
"""
_HAS_RESTARTED = "select pg_postmaster_start_time() > to_timestamp(%s) as has_restarted"
_CUT_LISTENERS = """
select count(pg_terminate_backend(a.pid)) from pg_stat_activity as a
where a.application_name ~ '^chaos-[0-9]+$' and a.query ilike 'listen%'
"""


class FaultInjector:
    """Injects random faults and user actions as planned."""

    def __init__(self, system: ChaosSystem, users: Users) -> None:
        self._system = system
        self._rng = system.plan.rng("the details of disturbances")
        self._postgres_lock = asyncio.Lock()
        self._disk_lock = asyncio.Lock()
        self._suspended: set[str] = set()
        self._actions: Mapping[str, Callable[[], Awaitable[None]]] = {
            "kill a worker": self._kill_a_worker,
            "suspend a worker beyond its lock": self._suspend_a_worker,
            "kill the sandbox of a worker": self._kill_a_sandbox,
            "kill the functions": lambda: self._kill("functions"),
            "suspend the functions": lambda: self._suspend(
                "functions", self._draw_seconds_beyond_lock()
            ),
            "kill the GPU service": lambda: self._kill("gpu"),
            "suspend the GPU service": self._suspend_the_gpu_service,
            "kill the system with its scheduler": lambda: self._kill(SYSTEM),
            "restart Postgres, fast": lambda: self._restart_postgres(signal.SIGINT),
            "restart Postgres, immediate": lambda: self._restart_postgres(signal.SIGQUIT),
            "stop Postgres beyond a lock": self._stop_postgres,
            "cut the connections of a process": self._cut_process,
            "cut all connections": lambda: self._cut_connections(_CUT, None, None),
            "cut listening connections": lambda: self._cut_connections(_CUT_LISTENERS),
            "send a spurious notification": self._notify,
            "call a worker function": self._call_function,
            "fill the disk": self._fill_disk,
            "cancel a document": users.cancel,
            "read a document again": users.read_again,
            "resolve a dead letter": users.resolve_dead_letter,
            "delete a document and restore it": users.delete_and_restore,
            "pause a lane": users.pause,
            "recover a document that is not stuck": users.recover,
            "cancel a job": users.cancel_job,
            "run a job again": users.rerun_job,
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Inject faults until `stop` is set; then wait until the last one has ended."""
        async with asyncio.TaskGroup() as group:
            for name, pause in generate_schedule(self._system.plan):
                group.create_task(self._inject(name))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)
                    return

    async def _inject(self, name: str) -> None:
        """Inject one fault, and count it if that was possible."""
        self._system.journal.write(name)
        try:
            await self._actions[name]()
        except (LookupError, psutil.Error, psycopg.OperationalError, httpx.HTTPError):
            return
        self._system.journal.counts[name] += 1

    def _draw_seconds_beyond_lock(self) -> float:
        lock = self._system.plan.lock_seconds
        return lock + self._rng.uniform(0.2, 0.6) * lock

    async def _kill(self, name: str) -> None:
        self._system.programs.kill(name)

    async def _kill_a_worker(self) -> None:
        await self._kill(self._rng.choice(self._system.programs.worker_names()))

    async def _kill_a_sandbox(self) -> None:
        self._system.programs.kill_sandbox(self._rng.choice(self._system.programs.worker_names()))

    async def _suspend_a_worker(self) -> None:
        """Suspend a worker, but never more than half of them."""
        workers = self._system.programs.worker_names()
        running = [name for name in workers if name not in self._suspended]
        if 2 * len(running) <= len(workers):
            raise LookupError("half of the workers are suspended")
        await self._suspend(self._rng.choice(running), self._draw_seconds_beyond_lock())

    async def _suspend(self, name: str, seconds: float) -> None:
        if name in self._suspended:
            raise LookupError(f"{name} is suspended already")
        self._suspended.add(name)
        try:
            with self._system.programs.suspend(name):
                await asyncio.sleep(seconds)
        finally:
            self._suspended.discard(name)

    async def _suspend_the_gpu_service(self) -> None:
        silence = self._system.plan.gpu_silence_seconds
        await self._suspend("gpu", self._rng.uniform(0.3, 1.3) * silence)

    async def _restart_postgres(self, number: signal.Signals) -> None:
        """Shut Postgres down; the system restarts it."""
        async with self._postgres_lock, self._record_outage():
            self._find_postmaster().send_signal(number)

    async def _stop_postgres(self) -> None:
        """Shut Postgres down and suspend the system, which would restart it."""
        async with self._postgres_lock, self._record_outage():
            end = time.time() + self._system.plan.lock_seconds * self._rng.uniform(1.1, 1.5)
            with self._system.programs.suspend(SYSTEM):
                while time.time() < end:
                    # A worker that was just started may have restarted it.
                    with contextlib.suppress(FileNotFoundError, psutil.Error):
                        self._find_postmaster().send_signal(signal.SIGINT)
                    await asyncio.sleep(0.5)

    @contextlib.asynccontextmanager
    async def _record_outage(self) -> AsyncIterator[None]:
        """Record the period in which the database is unavailable."""
        begin = time.time()
        yield
        while not (await self._system.rows(_HAS_RESTARTED, begin))[0]["has_restarted"]:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)
        self._system.journal.outages.append(event_log.Span(begin, time.time()))

    def _find_postmaster(self) -> psutil.Process:
        file = self._system.installation.home / "data" / "postmaster.pid"
        return psutil.Process(int(file.read_text().split()[0]))

    async def _cut_process(self) -> None:
        name = self._rng.choice([*self._system.programs.worker_names(), "functions", SYSTEM])
        application = f"chaos-{self._system.programs.find_pid(name)}"
        await self._cut_connections(_CUT, application, application)

    async def _cut_connections(self, statement: LiteralString, *values: object) -> None:
        async with await self._system.connect() as conn:
            self._system.journal.cuts.append(time.time())
            await conn.execute(statement, values or None)

    async def _notify(self) -> None:
        """Notify workers of new documents when there are none."""
        async with await self._system.connect() as conn:
            lane = self._rng.choice(plans.LANES)
            await conn.execute("select pg_notify(%s, %s)", (listener.DOCUMENT_CHANNEL, lane))

    async def _call_function(self) -> None:
        """Call a worker function, as a duplicate event does."""
        async with self._system.client() as client:
            name = self._rng.choice(_FUNCTIONS)
            body = {"budget_seconds": _BUDGET_SECONDS}
            response = await client.post(f"/functions/v1/{name}", json=body)
            response.raise_for_status()

    async def _fill_disk(self) -> None:
        """Fill the disk of the files for a while."""
        if not self._system.has_disk:
            raise LookupError("the files are not on a disk of their own")
        async with self._disk_lock:
            junk = self._system.files.parent / "junk"
            try:
                await asyncio.to_thread(_write_until_full, str(junk))
                await asyncio.sleep(self._rng.uniform(2, 4) * self._system.plan.gap_seconds)
            finally:
                junk.unlink(missing_ok=True)


def generate_schedule(plan: plans.Plan) -> Iterator[tuple[str, float]]:
    """Yield each fault and the seconds until the next one; the seed determines them."""
    rng = plan.rng("what is done when")
    names, weights = list(plan.disturbances), list(plan.disturbances.values())
    while True:
        (name,) = rng.choices(names, weights)
        yield name, rng.expovariate(1 / plan.gap_seconds)


def _write_until_full(path: str) -> None:
    """Write a file until the disk is full."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while os.write(descriptor, bytes(1 << 20)):
            pass
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise errors.LocalFileError(f"{path} cannot be written: {exc}") from exc
    finally:
        os.close(descriptor)
