"""The referee, who sits in the database of the run: what it saw, and what it objects to.

It judges while the run goes on: who touched a document that somebody else had (referee.sql), who
was taken for dead and was not, and which of the database's own rules did not hold.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from pagewarden.bench.chaos import journal as journals
    from pagewarden.bench.chaos.ground import Ground

_SQL = Path(__file__).with_name("referee.sql")
_LOOK_SECONDS = 5.0
# Where a connection is cut, a claim may be made while its answer is lost: whoever made it does not
# know, and is never heard of.
_LOST_ANSWER_SECONDS = 2.0
_EVENTS = """
select document_id::text, kind, status, worker, caller, reading, retries, rescues, was_heard,
  extract(epoch from at)::float8 as at
from chaos.events order by id
"""
_NOTED = "select rule, document_id::text, detail from chaos.violations order by id"
_INVARIANTS = "select invariant, document_id::text, detail from private.invariant_violations()"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that did not hold, for which document, and how that was seen."""

    rule: str
    document: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """A change of hands or of state; worker is who had the document, or has it now.

    was_heard: whoever had it had sent a heartbeat.
    """

    document_id: str
    kind: str
    status: str
    worker: str | None
    caller: str
    reading: int
    retries: int
    rescues: int
    was_heard: bool
    at: float


@dataclass(frozen=True, slots=True)
class Hold:
    """A document in the hands of a worker: from the claim to whatever ended it."""

    begin: Event
    end: Event | None

    @property
    def pid(self) -> int:
        """Tell whose hands they were."""
        return pid_of(self.begin.worker)

    @property
    def was_rescued(self) -> bool:
        """Tell whether it was taken back because nobody was heard of; not by HAC."""
        return self.end is not None and self.end.kind == "rescued" and _is_program(self.end.caller)


def pid_of(worker: str | None) -> int:
    """Take the process id out of the name of a worker, as chaos.process_of does."""
    number = (worker or "").removeprefix(f"{socket.gethostname()}-").partition("-")[0]
    return int(number) if number.isdecimal() else 0


def holds(events: Iterable[Event]) -> Iterator[Hold]:
    """Pair every claim with its end."""
    by_document = collections.defaultdict(list)
    for event in events:
        by_document[event.document_id].append(event)
    for of_one in by_document.values():
        for event, after in itertools.zip_longest(of_one, of_one[1:]):
            if event.kind == "claimed":
                yield Hold(event, after)


async def install(conn: psycopg.AsyncConnection[Any]) -> None:
    """Seat the referee in a database."""
    text = _SQL.read_text("utf-8").replace("{skip}", str(len(socket.gethostname()) + 2))
    await conn.execute(text.encode())


class Referee:
    """Watches a run; unsound are the rules of the database that it found broken on the way."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.unsound: dict[tuple[str, str | None], Violation] = {}
        self.looks = 0

    async def watch(self) -> None:
        """Look at the rules of the database now and then, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Ask the database which of its rules do not hold."""
        for row in await self._ground.rows(_INVARIANTS):
            found = Violation(row["invariant"], row["document_id"], row["detail"])
            self.unsound[found.rule, found.document] = found
        self.looks += 1

    async def events(self) -> list[Event]:
        """Give all that was seen, in order."""
        return [Event(**row) for row in await self._ground.rows(_EVENTS)]

    async def violations(self) -> list[Violation]:
        """Give all that it objects to so far."""
        noted = [
            Violation(row["rule"], row["document_id"], row["detail"])
            for row in await self._ground.rows(_NOTED)
        ]
        plan = self._ground.plan
        slack = plan.lock_seconds + plan.sweep_seconds + _LOST_ANSWER_SECONDS
        taken = unexcused(await self.events(), self._ground.journal, slack)
        return [*noted, *taken, *self.unsound.values()]


def unexcused(
    events: Iterable[Event], journal: journals.Journal, slack: float
) -> Iterator[Violation]:
    """Find documents that were taken from a worker which nobody had killed, stopped or cut off.

    slack is how long after its last sign of life a worker may be taken for dead.
    """
    for hold in holds(events):
        if hold.was_rescued and hold.end is not None and not _excused(hold, journal, slack):
            yield Violation(
                "only who is gone loses a document to the sweep",
                hold.begin.document_id,
                f"{hold.begin.worker} had it for {hold.end.at - hold.begin.at:.1f} s and was well",
            )


def _excused(hold: Hold, journal: journals.Journal, slack: float) -> bool:
    assert hold.end is not None  # noqa: S101  # only those that ended are asked about
    stood = any(span.touches(hold.end.at - slack, hold.end.at) for span in journal.stops[hold.pid])
    death = journal.deaths.get(hold.pid)
    died = death is not None and death.at <= hold.end.at
    at = hold.begin.at
    lost = journal.was_disturbed(at - _LOST_ANSWER_SECONDS, at + _LOST_ANSWER_SECONDS)
    return stood or died or (lost and not hold.end.was_heard)


def _is_program(caller: str) -> bool:
    return caller.removeprefix("chaos-").isdecimal()
