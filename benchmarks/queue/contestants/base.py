"""What a queue has to be able to do to take part."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pagewarden import errors

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager


#: Whatever the queue itself calls a job.
JobId: TypeAlias = int | str

#: Enqueue so many jobs in one transaction; returns their ids once it is committed.
Enqueue: TypeAlias = Callable[[int], Awaitable[Sequence[JobId]]]

#: To be called right after the completion of these jobs was committed.
Done: TypeAlias = Callable[[Iterable[JobId]], None]

#: How long a queue without notifications waits before it looks again.
IDLE_SECONDS = 0.002

_SUMMARY = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 2


class RoundFailedError(errors.PagewardenError):
    """A contestant did not do what a queue is for."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What is found in the database after a round."""

    completed: int
    results: int
    jobs_with_result: int

    def problem(self, expected: int) -> str | None:
        """Say what is wrong, if not exactly one result per job is there."""
        if self.jobs_with_result != expected:
            return f"{expected - self.jobs_with_result} of {expected} jobs have no result"
        if self.results != expected:
            return f"{self.results - expected} results too many for {expected} jobs"
        if self.completed != expected:
            return f"{expected - self.completed} of {expected} jobs are not marked as complete"
        return None


class Contestant(Protocol):
    """A queue, used as its documentation recommends for speed.

    Every job is enqueued durably, taken by one of several workers, handled, and completed
    durably with one result row.
    """

    @property
    def name(self) -> str:
        """Name in the report and, in lower case, of the databases."""

    async def prepare(self, url: str) -> None:
        """Create tables and functions in the empty database of this URL."""

    def producer(self, url: str) -> AbstractAsyncContextManager[Enqueue]:
        """Connect a producer."""

    async def work(self, url: str, batch: int, done: Done, stop: asyncio.Event) -> None:
        """Take and complete jobs, up to batch at a time, until told to stop."""

    async def tally(self, url: str) -> Tally:
        """Count what is in the database."""


def payload(number: int) -> dict[str, Any]:
    """Make what a job is about: a file to be read."""
    return {"path": f"/inbox/2024/scan-{number:08}.png", "lane": "image"}


def handle(job: JobId) -> dict[str, object]:
    """Do the work of a job: the same small result for every contestant."""
    return {"job": job, "summary": _SUMMARY, "confidence": 0.97}


def handled(job: JobId) -> str:
    """Do the work of a job; returns the result as JSON."""
    return json.dumps(handle(job))
