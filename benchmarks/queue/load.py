"""The processes that produce and work, and their orders; each contestant gets the same number."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import multiprocessing
import os
import time
import traceback
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from benchmarks.queue import contestants
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, ForkServerProcess


_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Phase:
    """What happened to the jobs of one set of orders.

    latencies are seconds from the call that enqueued a job to the commit that completed it, in
    no order. cpu_shares has for every process the share of one core that it used.
    """

    jobs: int
    seconds: float
    latencies: list[float]
    cpu_shares: list[float]


@dataclass(frozen=True, slots=True)
class Member:
    """A process and the line to it."""

    process: ForkServerProcess
    pipe: Connection


@dataclass(slots=True)
class Crew:
    """The workers and producers of one round, connected and at work."""

    members: list[Member]
    workers: int
    counts: Counts

    @property
    def producers(self) -> int:
        """How many of the members produce."""
        return len(self.members) - self.workers

    def completed(self) -> list[int]:
        """Count the jobs each worker has completed so far."""
        return [self.counts[seat] for seat in range(self.workers)]

    async def perform(self, orders: list[Order]) -> Phase:
        """Give each producer its order and wait until every job is completed."""
        await self._collect()  # forget what came before
        begun = time.monotonic()
        producers = self.members[self.workers :]
        for member, order in zip(producers, orders, strict=True):
            _send(member, order)
        enqueued = [await self._receive(member) for member in producers]
        await self._completed(total(self.counts, self.workers, len(self.members)))
        elapsed = time.monotonic() - begun
        done = await self._collect()
        shares = [notes.cpu_seconds / elapsed for notes in (*done, *enqueued)]
        return _phase(enqueued, done, shares)

    async def _collect(self) -> list[Notes]:
        workers = self.members[: self.workers]
        for member in workers:
            _send(member, Collect())
        return [await self._receive(member) for member in workers]

    async def _receive(self, member: Member) -> Notes:
        message = await receive(member.pipe)
        if isinstance(message, Notes):
            return message
        reason = message.reason if isinstance(message, Failed) else "it died"
        raise base.RoundFailedError(f"a process of the load generator failed: {reason}")

    async def _completed(self, expected: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (completed := sum(self.completed())) < expected:
            for member in self.members:
                if member.pipe.poll() or not member.process.is_alive():
                    await self._receive(member)
            if time.monotonic() > deadline:
                raise base.RoundFailedError(
                    f"{expected - completed} of {expected} jobs never completed"
                )
            await asyncio.sleep(_POLL_SECONDS)


def _send(member: Member, message: object) -> None:
    """Send a message; a process that has given up has left its reason in the pipe."""
    with contextlib.suppress(BrokenPipeError):
        member.pipe.send(message)


def _phase(enqueued: list[Notes], completed: list[Notes], shares: list[float]) -> Phase:
    started: dict[base.JobId, float] = {}
    for notes in enqueued:
        started.update(zip(notes.ids, notes.moments, strict=True))
    pairs = [pair for notes in completed for pair in zip(notes.ids, notes.moments, strict=True)]
    if len(pairs) != len(started) or {job for job, _ in pairs} != started.keys():
        raise base.RoundFailedError(f"{len(pairs)} completions for {len(started)} jobs")
    last = max(moment for _, moment in pairs)
    return Phase(
        jobs=len(started),
        seconds=last - min(started.values()),
        latencies=[moment - started[job] for job, moment in pairs],
        cpu_shares=shares,
    )


def context() -> ForkServerContext:
    """Start processes from a clean server that has everything imported already."""
    chosen = multiprocessing.get_context("forkserver")
    chosen.set_forkserver_preload([__name__, *contestants.modules()])
    return chosen


@asynccontextmanager
async def start_crew(
    name: str, url: str, *, batch: int, workers: int, producers: int
) -> AsyncIterator[Crew]:
    """Start the processes; they are gone when the block ends."""
    processes = context()
    counts = processes.RawArray("q", workers + producers)
    members = []
    try:
        for seat in range(workers + producers):
            assignment = Assignment(name, url, batch, seat, workers)
            members.append(_start(processes, assignment, counts))
        yield Crew(members, workers, counts)
        for member in members:
            member.pipe.send(None)
        for member in members:
            await asyncio.to_thread(member.process.join, _PATIENCE_SECONDS)
    finally:
        for member in members:
            member.process.kill()
            member.process.join()
            member.pipe.close()


def _start(processes: ForkServerContext, assignment: Assignment, counts: Counts) -> Member:
    near, far = processes.Pipe()
    process = processes.Process(target=main, args=(assignment, far, counts), daemon=True)
    process.start()
    far.close()
    return Member(process, near)


# Inside a process ---------------------------------------------------------------------------------


# Short enough not to slow anybody down, long enough not to burn a core with waiting.
_ROOM_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Order:
    """How much one producer enqueues, and how fast.

    It stops at jobs or after seconds, whichever comes first. With an interval it sends a batch
    every so many seconds; without, as fast as it can while less than window jobs are waiting.
    """

    jobs: int
    seconds: float
    window: int
    delay: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class Collect:
    """Ask a worker for what it noted since it was last asked."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Jobs and the moment at which each was enqueued or completed.

    Moments are seconds of one clock for all processes; cpu_seconds is what this process has
    used since its last notes.
    """

    ids: list[base.JobId]
    moments: list[float]
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The process gave up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one process is there for; seat is its place in the shared counts."""

    contestant: str
    url: str
    batch: int
    seat: int
    workers: int

    @property
    def works(self) -> bool:
        """Whether this one works; the others produce."""
        return self.seat < self.workers


class Counts(Protocol):
    """Jobs completed by each worker, then jobs enqueued by each producer.

    The memory is shared by all processes; every seat has one writer, so no lock is needed.
    """

    def __getitem__(self, seat: int, /) -> int: ...
    def __setitem__(self, seat: int, value: int, /) -> None: ...
    def __len__(self) -> int: ...


def total(counts: Counts, first: int, last: int) -> int:
    """Sum the seats from first up to, not including, last."""
    return sum(counts[seat] for seat in range(first, last))


@dataclass(slots=True)
class Recorder:
    """Notes which jobs were done when, and lets the other processes see how many."""

    counts: Counts
    seat: int
    ids: list[base.JobId] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def note(self, ids: Iterable[base.JobId], moment: float) -> None:
        """Note that these jobs were enqueued, or completed, at that moment."""
        before = len(self.ids)
        self.ids.extend(ids)
        new = len(self.ids) - before
        self.moments.extend(itertools.repeat(moment, new))
        self.counts[self.seat] += new

    def done(self, ids: Iterable[base.JobId]) -> None:
        """Note that the completion of these jobs has just been committed."""
        self.note(ids, time.monotonic())

    def take(self) -> Notes:
        """Hand over the notes and start afresh."""
        used = time.process_time()
        notes = Notes(self.ids, self.moments, used - self.cpu_seconds)
        self.ids, self.moments, self.cpu_seconds = [], [], used
        return notes


def main(assignment: Assignment, pipe: Connection, counts: Counts) -> None:
    """Run one process until the pipe is closed or says stop (None)."""
    # pgqueuer's own command runs on uvloop, so everybody does.
    uvloop = importlib.import_module("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(assignment, pipe, Recorder(counts, assignment.seat)))
        except Exception:  # noqa: BLE001  # whatever it was, the parent is to print it
            pipe.send(Failed(traceback.format_exc()))


async def receive(pipe: Connection) -> object:
    """Wait for a message without stopping the event loop; None when nobody will ever send one."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(pipe.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe.fileno())
        # uvloop leaves it non-blocking, and a large answer would be cut off in the middle.
        os.set_blocking(pipe.fileno(), True)
    try:
        return pipe.recv()
    except EOFError:
        return None


async def _serve(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    if assignment.works:
        await _serve_worker(assignment, pipe, recorder)
    else:
        await _serve_producer(assignment, pipe, recorder)


async def _serve_worker(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    stop = asyncio.Event()
    queue = contestants.get(assignment.contestant)
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.work(assignment.url, assignment.batch, recorder.done, stop))
        while await receive(pipe) is not None:
            pipe.send(recorder.take())
        stop.set()


async def _serve_producer(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    queue = contestants.get(assignment.contestant)
    async with queue.producer(assignment.url) as enqueue:
        while isinstance(order := await receive(pipe), Order):
            await _produce(order, enqueue, assignment, recorder)
            pipe.send(recorder.take())


async def _produce(
    order: Order, enqueue: base.Enqueue, assignment: Assignment, recorder: Recorder
) -> None:
    begun = time.monotonic()
    for number in itertools.count():
        if order.interval:
            due = begun + order.delay + number * order.interval
            await asyncio.sleep(due - time.monotonic())
        else:
            await _room(order, assignment.workers, recorder.counts, begun + order.seconds)
        left = order.jobs - len(recorder.ids)
        moment = time.monotonic()
        if left <= 0 or moment - begun >= order.seconds:
            return
        recorder.note(await enqueue(min(assignment.batch, left)), moment)


async def _room(order: Order, workers: int, counts: Counts, deadline: float) -> None:
    """Wait until the workers have caught up; not for ever, they may have died."""
    while time.monotonic() < deadline:
        waiting = total(counts, workers, len(counts)) - total(counts, 0, workers)
        if waiting < order.window:
            return
        await asyncio.sleep(_ROOM_SECONDS)
