"""Resolve all dead letters that match a filter, in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.database import Database, rows

# Each batch is a transaction that blocks uploads into its cases.
BATCH = 200


@dataclass(slots=True)
class Outcome:
    """Number of resolved dead letters, and the answers for the others."""

    done: int = 0
    skipped: list[rows.DeadLetterAnswer] = field(default_factory=list)


async def resolve_all(
    database: Database, criteria: Mapping[str, Any], action: str, notes: str | None
) -> Outcome:
    """Resolve them batch by batch; dead letters that were resolved meanwhile are skipped.

    `criteria` is the filter of resolve_dead_letters. After an outage of the database, the same call
    resolves the rest.
    """
    if not criteria:
        raise errors.InvalidArgument(
            "the filter is empty", sqlstate="22023", hint="choose at least one"
        )
    outcome = Outcome()
    async for ids in _iterate_batches(database, criteria):
        answer = await database.resolve_dead_letters(
            filter={"ids": ids}, action=action, notes=notes
        )
        outcome.done += answer["resolved"]
        outcome.skipped += answer["skipped"]
    return outcome


async def _iterate_batches(
    database: Database, criteria: Mapping[str, Any]
) -> AsyncIterator[list[str]]:
    if "ids" in criteria:
        for start in range(0, len(criteria["ids"]), BATCH):
            yield criteria["ids"][start : start + BATCH]
        return
    last: rows.ListedDeadLetter | None = None
    while found := await database.list_dead_letters(
        filter=criteria,
        before=last and last["last_failed_at"],
        before_id=last and last["dlq_id"],
        limit=BATCH,
    ):
        yield [row["dlq_id"] for row in found]
        last = found[-1]
