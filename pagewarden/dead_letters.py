"""Decisions about all dead letters that match a filter, however many those are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.database import Database, rows

# Each batch is a transaction, and whoever uploads into one of its cases waits for its end.
BATCH = 200


@dataclass(slots=True)
class Outcome:
    """How many were done, and the answers of those that were not."""

    done: int = 0
    skipped: list[rows.DeadLetterAnswer] = field(default_factory=list)


async def resolve(
    database: Database, wanted: Mapping[str, Any], action: str, notes: str | None
) -> Outcome:
    """Do it batch by batch; what somebody else decided meanwhile is skipped.

    wanted is a filter of resolve_dead_letters. If the database goes away, what was done stays
    done, and the same call again does the rest.
    """
    if not wanted:
        raise errors.InvalidCall(
            "the filter is empty", sqlstate="22023", hint="choose at least one"
        )
    outcome = Outcome()
    async for ids in _batches(database, wanted):
        answer = await database.resolve_dead_letters(
            filter={"ids": ids}, action=action, notes=notes
        )
        outcome.done += answer["resolved"]
        outcome.skipped += answer["skipped"]
    return outcome


async def _batches(database: Database, wanted: Mapping[str, Any]) -> AsyncIterator[list[str]]:
    if "ids" in wanted:
        for start in range(0, len(wanted["ids"]), BATCH):
            yield wanted["ids"][start : start + BATCH]
        return
    last: rows.ListedDeadLetter | None = None
    while found := await database.list_dead_letters(
        filter=wanted,
        before=last and last["last_failed_at"],
        before_id=last and last["dlq_id"],
        limit=BATCH,
    ):
        yield [row["dlq_id"] for row in found]
        last = found[-1]
