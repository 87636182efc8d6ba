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

from benchmarks.chaos import event_log, system
from benchmarks.chaos import plan as plans
from pagewarden import errors, waking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from typing import LiteralString

    from benchmarks.chaos.system import Ground
    from benchmarks.chaos.traffic import People


_FUNCTIONS = ("ocr-worker", "pdf-worker")
_BUDGET_SECONDS = 10
_CUT = """
select count(pg_terminate_backend(a.pid)) from pg_stat_activity as a
where a.application_name ~ '^chaos-[0-9]+$' and (%s::text is null or a.application_name = %s)
"""
_IS_NEW = "select pg_postmaster_start_time() > to_timestamp(%s) as is_new"
_CUT_LISTENERS = """
select count(pg_terminate_backend(a.pid)) from pg_stat_activity as a
where a.application_name ~ '^chaos-[0-9]+$' and a.query ilike 'listen%'
"""


class Monkey:
    """Does what the plan says, by chance; all of it is over when it has run."""

    def __init__(self, ground: Ground, people: People) -> None:
        self._ground = ground
        self._chance = ground.plan.chance("the details of disturbances")
        self._alone = asyncio.Lock()
        self._disk = asyncio.Lock()
        self._standing: set[str] = set()
        self._acts: Mapping[str, Callable[[], Awaitable[None]]] = {
            "kill a worker": self._kill_a_worker,
            "stop a worker beyond its lock": self._stop_a_worker,
            "kill the sandbox of a worker": self._kill_a_sandbox,
            "kill the functions": lambda: self._kill("functions"),
            "stop the functions": lambda: self._stop("functions", self._beyond_lock()),
            "kill the GPU service": lambda: self._kill("gpu"),
            "hang the GPU service": self._hang_the_gpu_service,
            "kill the scheduler with its system": lambda: self._kill(system.SYSTEM),
            "restart Postgres, fast": lambda: self._restart(signal.SIGINT),
            "restart Postgres, immediate": lambda: self._restart(signal.SIGQUIT),
            "keep Postgres away beyond a lock": self._keep_away,
            "cut the connections of a process": self._cut_one,
            "cut all connections": lambda: self._cut(_CUT, None, None),
            "cut those who listen": lambda: self._cut(_CUT_LISTENERS),
            "ring for nothing": self._ring,
            "call a worker function": self._call,
            "fill the disk": self._fill,
            "cancel a document": people.cancel,
            "have a document read again": people.read_again,
            "decide about a dead letter": people.decide,
            "delete a document and restore it": people.delete_and_restore,
            "pause a lane": people.pause,
            "take a document for stuck": people.recover,
            "cancel a job": people.cancel_job,
            "run a job again": people.rerun_job,
        }

    async def run(self, over: asyncio.Event) -> None:
        """Disturb until it is over; then wait until the last disturbance has ended."""
        async with asyncio.TaskGroup() as group:
            for name, pause in schedule(self._ground.plan):
                group.create_task(self._do(name))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), pause)
                    return

    async def _do(self, name: str) -> None:
        """Do one thing; what could not be done is not counted."""
        self._ground.journal.say(name)
        try:
            await self._acts[name]()
        except (LookupError, psutil.Error, psycopg.OperationalError, httpx.HTTPError):
            return
        self._ground.journal.counts[name] += 1

    def _beyond_lock(self) -> float:
        lock = self._ground.plan.lock_seconds
        return lock + self._chance.uniform(0.2, 0.6) * lock

    async def _kill(self, name: str) -> None:
        self._ground.crew.kill(name)

    async def _kill_a_worker(self) -> None:
        await self._kill(self._chance.choice(self._ground.crew.readers()))

    async def _kill_a_sandbox(self) -> None:
        self._ground.crew.kill_sandbox(self._chance.choice(self._ground.crew.readers()))

    async def _stop_a_worker(self) -> None:
        """Stop one of the workers; half of them go on in any case."""
        readers = self._ground.crew.readers()
        free = [name for name in readers if name not in self._standing]
        if 2 * len(free) <= len(readers):
            raise LookupError("enough stand still already")
        await self._stop(self._chance.choice(free), self._beyond_lock())

    async def _stop(self, name: str, seconds: float) -> None:
        if name in self._standing:
            raise LookupError(f"{name} stands still already")
        self._standing.add(name)
        try:
            with self._ground.crew.stopped(name):
                await asyncio.sleep(seconds)
        finally:
            self._standing.discard(name)

    async def _hang_the_gpu_service(self) -> None:
        silence = self._ground.plan.gpu_silence_seconds
        await self._stop("gpu", self._chance.uniform(0.3, 1.3) * silence)

    async def _restart(self, number: signal.Signals) -> None:
        """Shut Postgres down; the system starts it again as soon as it sees that."""
        async with self._alone, self._outage():
            self._postmaster().send_signal(number)

    async def _keep_away(self) -> None:
        """Shut Postgres down while those who would start it again stand still."""
        async with self._alone, self._outage():
            end = time.time() + self._ground.plan.lock_seconds * self._chance.uniform(1.1, 1.5)
            with self._ground.crew.stopped(system.SYSTEM):
                while time.time() < end:
                    # A worker that starts anew may have started it.
                    with contextlib.suppress(FileNotFoundError, psutil.Error):
                        self._postmaster().send_signal(signal.SIGINT)
                    await asyncio.sleep(0.5)

    @contextlib.asynccontextmanager
    async def _outage(self) -> AsyncIterator[None]:
        """Note from when to when the database was not there."""
        begin = time.time()
        yield
        while not (await self._ground.rows(_IS_NEW, begin))[0]["is_new"]:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)
        self._ground.journal.outages.append(event_log.Span(begin, time.time()))

    def _postmaster(self) -> psutil.Process:
        file = self._ground.place.home / "data" / "postmaster.pid"
        return psutil.Process(int(file.read_text().split()[0]))

    async def _cut_one(self) -> None:
        name = self._chance.choice([*self._ground.crew.readers(), "functions", system.SYSTEM])
        whose = f"chaos-{self._ground.crew.pid_of(name)}"
        await self._cut(_CUT, whose, whose)

    async def _cut(self, statement: LiteralString, *values: object) -> None:
        async with await self._ground.connect() as conn:
            self._ground.journal.cuts.append(time.time())
            await conn.execute(statement, values or None)

    async def _ring(self) -> None:
        """Say that documents have come, when none has."""
        async with await self._ground.connect() as conn:
            lane = self._chance.choice(plans.LANES)
            await conn.execute("select pg_notify(%s, %s)", (waking.CHANNEL, lane))

    async def _call(self) -> None:
        """Call a function that reads, as an event does that came twice."""
        async with self._ground.client() as client:
            name = self._chance.choice(_FUNCTIONS)
            body = {"budget_seconds": _BUDGET_SECONDS}
            answer = await client.post(f"/functions/v1/{name}", json=body)
            answer.raise_for_status()

    async def _fill(self) -> None:
        """Fill the disk of the files for a while."""
        if not self._ground.has_disk:
            raise LookupError("there is no disk that we may fill")
        async with self._disk:
            junk = self._ground.files.parent / "junk"
            try:
                await asyncio.to_thread(_fill, str(junk))
                await asyncio.sleep(self._chance.uniform(2, 4) * self._ground.plan.gap_seconds)
            finally:
                junk.unlink(missing_ok=True)


def schedule(plan: plans.Plan) -> Iterator[tuple[str, float]]:
    """Say what is done next, and how many seconds later the next thing: the same for each seed."""
    chance = plan.chance("what is done when")
    names, weights = list(plan.disturbances), list(plan.disturbances.values())
    while True:
        (name,) = chance.choices(names, weights)
        yield name, chance.expovariate(1 / plan.gap_seconds)


def _fill(path: str) -> None:
    """Write until there is no room left."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while os.write(number, bytes(1 << 20)):
            pass
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise errors.LocalFileError(f"{path} cannot be written: {exc}") from exc
    finally:
        os.close(number)
