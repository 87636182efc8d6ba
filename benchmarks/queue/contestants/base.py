"""The interface of a contestant, and the job that all of them process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pagewarden import errors

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager


#: The queue's own id of a job.
JobId: TypeAlias = int | str

#: Enqueue this number of jobs in one transaction; return their ids after the commit.
Enqueue: TypeAlias = Callable[[int], Awaitable[Sequence[JobId]]]

#: Called right after the completion of these jobs is committed.
RecordCompleted: TypeAlias = Callable[[Iterable[JobId]], None]

#: Polling interval of a queue without notifications.
IDLE_SECONDS = 0.002

_SUMMARY = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 2


class RoundFailedError(errors.PagewardenError):
    """A contestant lost, duplicated or never completed a job."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts in the database after a round."""

    completed: int
    results: int
    jobs_with_result: int

    def problem(self, expected: int) -> str | None:
        """Return what is wrong; None if there is exactly one result per job."""
        if self.jobs_with_result != expected:
            return f"{expected - self.jobs_with_result} of {expected} jobs have no result"
        if self.results != expected:
            return f"{self.results - expected} results too many for {expected} jobs"
        if self.completed != expected:
            return f"{expected - self.completed} of {expected} jobs are not marked as complete"
        return None


class Contestant(Protocol):
    """A queue, configured as its documentation recommends for speed.

    Every job is enqueued durably, processed by one of several workers, and completed durably with
    one result row.
    """

    @property
    def name(self) -> str:
        """Return the name in the report and of the databases."""

    async def prepare(self, url: str) -> None:
        """Create tables and functions in an empty database."""

    def producer(self, url: str) -> AbstractAsyncContextManager[Enqueue]:
        """Connect as a producer."""

    async def work(
        self, url: str, batch: int, record_completed: RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Process jobs, up to `batch` at a time, until `stop` is set."""

    async def tally(self, url: str) -> Tally:
        """Count jobs and results in the database."""


def make_payload(number: int) -> dict[str, Any]:
    """Make the payload of a job: a file to read."""
    return {"path": f"/inbox/2024/scan-{number:08}.png", "lane": "image"}


def handle(job: JobId) -> dict[str, object]:
    """Handle a job; return its result, which is the same for every contestant."""
    return {"job": job, "summary": _SUMMARY, "confidence": 0.97}


def handle_as_json(job: JobId) -> str:
    """Handle a job; return its result as JSON."""
    return json.dumps(handle(job))
