"""The load generator: processes that produce and work, the same number for each contestant."""

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
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Phase:
    """The measurements of a phase.

    `latencies` are the seconds from the call that enqueued a job to the commit that completed it,
    unordered. `cpu_shares` has the share of one core that each process used.
    """

    jobs: int
    seconds: float
    latencies: list[float]
    cpu_shares: list[float]


@dataclass(frozen=True, slots=True)
class LoadProcess:
    """A process and the pipe to it."""

    process: ForkServerProcess
    pipe: Connection


@dataclass(slots=True)
class LoadGenerator:
    """The connected workers and producers of one round; workers come first."""

    processes: list[LoadProcess]
    workers: int
    counts: Counts

    def count_completed(self) -> list[int]:
        """Return the number of jobs that each worker has completed."""
        return [self.counts[number] for number in range(self.workers)]

    async def run_phase(self, tasks: list[ProducerTask]) -> Phase:
        """Send each producer its task; wait until every job is completed."""
        await self._collect()  # discard earlier records
        start = time.monotonic()
        producers = self.processes[self.workers :]
        for producer, task in zip(producers, tasks, strict=True):
            _send(producer, task)
        enqueued = [await self._receive(producer) for producer in producers]
        await self._wait_until_completed(total(self.counts, self.workers, len(self.processes)))
        elapsed = time.monotonic() - start
        completed = await self._collect()
        shares = [records.cpu_seconds / elapsed for records in (*completed, *enqueued)]
        return _make_phase(enqueued, completed, shares)

    async def _collect(self) -> list[Records]:
        workers = self.processes[: self.workers]
        for worker in workers:
            _send(worker, Collect())
        return [await self._receive(worker) for worker in workers]

    async def _receive(self, sender: LoadProcess) -> Records:
        message = await receive(sender.pipe)
        if isinstance(message, Records):
            return message
        reason = message.reason if isinstance(message, Failed) else "it died"
        raise base.RoundFailedError(f"a process of the load generator failed: {reason}")

    async def _wait_until_completed(self, expected: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while (completed := sum(self.count_completed())) < expected:
            for each in self.processes:
                if each.pipe.poll() or not each.process.is_alive():
                    await self._receive(each)
            if time.monotonic() > deadline:
                raise base.RoundFailedError(
                    f"{expected - completed} of {expected} jobs never completed"
                )
            await asyncio.sleep(_POLL_SECONDS)


def _send(receiver: LoadProcess, message: object) -> None:
    """Send a message; a failed process has left its error in the pipe, for `receive`."""
    with contextlib.suppress(BrokenPipeError):
        receiver.pipe.send(message)


def _make_phase(enqueued: list[Records], completed: list[Records], shares: list[float]) -> Phase:
    started: dict[base.JobId, float] = {}
    for records in enqueued:
        started.update(zip(records.ids, records.times, strict=True))
    pairs = [pair for records in completed for pair in zip(records.ids, records.times, strict=True)]
    if len(pairs) != len(started) or {job for job, _ in pairs} != started.keys():
        raise base.RoundFailedError(f"{len(pairs)} completions for {len(started)} jobs")
    last = max(time_completed for _, time_completed in pairs)
    return Phase(
        jobs=len(started),
        seconds=last - min(started.values()),
        latencies=[time_completed - started[job] for job, time_completed in pairs],
        cpu_shares=shares,
    )


def make_context() -> ForkServerContext:
    """Return a context whose fork server has imported all contestants."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *contestants.list_modules()])
    return context


@asynccontextmanager
async def start_generator(
    name: str, url: str, *, batch: int, workers: int, producers: int
) -> AsyncIterator[LoadGenerator]:
    """Start the processes; end them at the end."""
    context = make_context()
    counts = context.RawArray("q", workers + producers)
    processes = []
    try:
        for number in range(workers + producers):
            assignment = Assignment(name, url, batch, number, workers)
            processes.append(_start_process(context, assignment, counts))
        yield LoadGenerator(processes, workers, counts)
        for each in processes:
            each.pipe.send(None)
        for each in processes:
            await asyncio.to_thread(each.process.join, _TIMEOUT_SECONDS)
    finally:
        for each in processes:
            each.process.kill()
            each.process.join()
            each.pipe.close()


def _start_process(
    context: ForkServerContext, assignment: Assignment, counts: Counts
) -> LoadProcess:
    parent_end, child_end = context.Pipe()
    process = context.Process(target=main, args=(assignment, child_end, counts), daemon=True)
    process.start()
    child_end.close()
    return LoadProcess(process, parent_end)


# Inside a process ---------------------------------------------------------------------------------


# Short enough not to delay producers, long enough not to keep a core busy with polling.
_WINDOW_POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class ProducerTask:
    """The number of jobs that one producer enqueues, and the rate.

    A producer stops after `jobs` or `seconds`, whichever is reached first. With an interval it
    sends a batch every `interval` seconds; without, as fast as possible while fewer than `window`
    jobs are queued.
    """

    jobs: int
    seconds: float
    window: int
    delay: float = 0.0
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class Collect:
    """Request the records of a worker since the last request."""


@dataclass(frozen=True, slots=True)
class Records:
    """Jobs and the times at which they were enqueued or completed.

    All processes use the same clock. `cpu_seconds` is the CPU time of the process since its last
    records.
    """

    ids: list[base.JobId]
    times: list[float]
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The process failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """The configuration of one process; `number` is its index in the shared counts."""

    contestant: str
    url: str
    batch: int
    number: int
    workers: int

    @property
    def is_worker(self) -> bool:
        """Return whether the process is a worker; otherwise it is a producer."""
        return self.number < self.workers


class Counts(Protocol):
    """Jobs completed by each worker, then jobs enqueued by each producer.

    The memory is shared by all processes; each element has one writer, so no lock is needed.
    """

    def __getitem__(self, number: int, /) -> int: ...
    def __setitem__(self, number: int, value: int, /) -> None: ...
    def __len__(self) -> int: ...


def total(counts: Counts, first: int, last: int) -> int:
    """Sum the counts from `first` up to, not including, `last`."""
    return sum(counts[number] for number in range(first, last))


@dataclass(slots=True)
class Recorder:
    """Records the time of each job, and updates the shared count."""

    counts: Counts
    number: int
    ids: list[base.JobId] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def record(self, ids: Iterable[base.JobId], at: float) -> None:
        """Record that these jobs were enqueued or completed at a time."""
        before = len(self.ids)
        self.ids.extend(ids)
        new = len(self.ids) - before
        self.times.extend(itertools.repeat(at, new))
        self.counts[self.number] += new

    def record_completed(self, ids: Iterable[base.JobId]) -> None:
        """Record that the completion of these jobs was just committed."""
        self.record(ids, time.monotonic())

    def pop_records(self) -> Records:
        """Return and clear the records."""
        cpu_seconds = time.process_time()
        records = Records(self.ids, self.times, cpu_seconds - self.cpu_seconds)
        self.ids, self.times, self.cpu_seconds = [], [], cpu_seconds
        return records


def main(assignment: Assignment, pipe: Connection, counts: Counts) -> None:
    """Run one process until it receives None or the pipe is closed."""
    # pgqueuer's own command uses uvloop, so all contestants do.
    uvloop = importlib.import_module("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(assignment, pipe, Recorder(counts, assignment.number)))
        except Exception:  # noqa: BLE001  # the parent reports any error
            pipe.send(Failed(traceback.format_exc()))


async def receive(pipe: Connection) -> object:
    """Wait for a message without blocking the event loop; return None if the pipe is closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(pipe.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe.fileno())
        # uvloop leaves the pipe non-blocking, which would truncate a large message.
        os.set_blocking(pipe.fileno(), True)
    try:
        return pipe.recv()
    except EOFError:
        return None


async def _serve(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    if assignment.is_worker:
        await _serve_worker(assignment, pipe, recorder)
    else:
        await _serve_producer(assignment, pipe, recorder)


async def _serve_worker(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    stop = asyncio.Event()
    queue = contestants.get(assignment.contestant)
    async with asyncio.TaskGroup() as group:
        group.create_task(
            queue.work(assignment.url, assignment.batch, recorder.record_completed, stop)
        )
        while await receive(pipe) is not None:
            pipe.send(recorder.pop_records())
        stop.set()


async def _serve_producer(assignment: Assignment, pipe: Connection, recorder: Recorder) -> None:
    queue = contestants.get(assignment.contestant)
    async with queue.producer(assignment.url) as enqueue:
        while isinstance(task := await receive(pipe), ProducerTask):
            await _produce(task, enqueue, assignment, recorder)
            pipe.send(recorder.pop_records())


async def _produce(
    task: ProducerTask, enqueue: base.Enqueue, assignment: Assignment, recorder: Recorder
) -> None:
    start = time.monotonic()
    for number in itertools.count():
        if task.interval:
            due = start + task.delay + number * task.interval
            await asyncio.sleep(due - time.monotonic())
        else:
            await _wait_for_window(task, assignment.workers, recorder.counts, start + task.seconds)
        left = task.jobs - len(recorder.ids)
        now = time.monotonic()
        if left <= 0 or now - start >= task.seconds:
            return
        recorder.record(await enqueue(min(assignment.batch, left)), now)


async def _wait_for_window(
    task: ProducerTask, workers: int, counts: Counts, deadline: float
) -> None:
    """Wait until fewer than `window` jobs are queued, or until the deadline if workers died."""
    while time.monotonic() < deadline:
        queued = total(counts, workers, len(counts)) - total(counts, 0, workers)
        if queued < task.window:
            return
        await asyncio.sleep(_WINDOW_POLL_SECONDS)
