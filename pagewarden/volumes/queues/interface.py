"""What every kind of stage queue offers.

Whoever receives a message has it to himself for a while, extends that while he is alive, and
acknowledges the message when the database knows how it ended. Who dies in between is survived by
the message. It may come twice, late or out of order: what it is worth, the database says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.volumes import messages


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that was received: the stage of its queue, a handle on it, and its body."""

    stage: str
    handle: str
    body: object


class StageQueue(Protocol):
    """The worker's side."""

    async def receive(self, stages: Sequence[str], *, seconds: float) -> Delivery | None:
        """Take a message of the first of these stages that has one, for so many seconds.

        Where a queue can wait for messages itself, it does so for a moment.
        """
        ...

    async def extend(self, delivery: Delivery, seconds: float) -> None:
        """Have the message to oneself for so long from now on; after 0 seconds others see it."""
        ...

    async def ack(self, delivery: Delivery) -> None:
        """Remove the message."""
        ...


class Publisher(Protocol):
    """The orchestrator's side, of queues that are outside of the database.

    Into those inside, the database puts messages itself, in the transaction that moves the task.
    """

    async def publish(self, stage: str, message: messages.Message) -> None:
        """Put a message into the queue of a stage; again does no harm."""
        ...

    async def is_empty(self, stage: str) -> bool:
        """Tell whether the queue of a stage has no message at all, as far as it knows."""
        ...

    async def keeps_seconds(self, stage: str) -> int:
        """Tell for how long the queue of a stage keeps a message that nobody receives."""
        ...
