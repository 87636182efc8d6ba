"""Messages for queues outside of the database, which are sent after the commit that wrote them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.volumes import messages, stages

if TYPE_CHECKING:
    from pagewarden.database import Database, rows
    from pagewarden.volumes import queues

log = structlog.get_logger(__name__)

# A queue knows of what is older.
YOUNG_SECONDS = 300
LONGEST_KEPT_SECONDS = 1_209_600
# What nobody has settled by then is sent once more; SQS drops it if it came the first time.
LEASE_SECONDS = 30
_BATCH = 100
_AT_ONCE = 10


async def drain(database: Database, publisher: queues.Publisher) -> int:
    """Send all that can be sent; return how many that were. A queue that is away is raised then."""
    sent, troubles = 0, dict[str, errors.QueueError]()
    while True:
        unsent = await database.claim_volume_outbox(limit=_BATCH, lease_seconds=LEASE_SECONDS)
        if not unsent:
            break
        sent += await _send(database, publisher, unsent, troubles)
    for trouble in troubles.values():
        raise trouble
    return sent


async def _send(
    database: Database,
    publisher: queues.Publisher,
    unsent: list[rows.VolumeOutboxMessage],
    troubles: dict[str, errors.QueueError],
) -> int:
    """Send what is for queues that gave no trouble so far; what is not sent is claimed again."""
    places = asyncio.Semaphore(_AT_ONCE)
    sent: list[messages.Message] = []

    async def one(row: rows.VolumeOutboxMessage) -> None:
        message = messages.Message.parse(row["message"])
        assert message is not None  # noqa: S101  # the database made it
        async with places:
            if row["stage"] in troubles:
                return
            try:
                await publisher.publish(row["stage"], message)
            except errors.QueueError as exc:
                troubles[row["stage"]] = exc
            else:
                sent.append(message)

    await asyncio.gather(*map(one, unsent))
    await database.settle_volume_outbox(
        messages=[{"task_id": m.task_id, "attempt": m.attempt} for m in sent]
    )
    return len(sent)


async def reconcile(database: Database, publisher: queues.Publisher) -> int:
    """Have sent again what waits for a message that its queue does not have any more.

    A queue that says it is empty has lost it: it was purged, or gave it to its dead letters. What
    was sent in the last minutes does not count: a queue knows only roughly how many it has. One
    that is not empty has lost what is older than it keeps any. An old message that is still
    there after all is stale.
    """
    lost = 0
    for stage in stages.STAGES:
        try:
            is_empty = await publisher.is_empty(stage)
            older = YOUNG_SECONDS if is_empty else await publisher.keeps_seconds(stage)
        except errors.QueueError as exc:
            log.warning("queue_not_seen", stage=stage, error=str(exc))
            continue
        lost += await database.republish_volumes(
            stage=stage, older_seconds=min(older, LONGEST_KEPT_SECONDS)
        )
    if lost:
        log.warning("messages_lost", volumes=lost)
    return lost
