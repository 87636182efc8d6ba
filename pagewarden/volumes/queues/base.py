"""StageQueue and Publisher protocols; the StageMessage they carry.

A received message is invisible to other workers until its visibility timeout ends. The worker
extends the timeout while it processes the volume, and acknowledges the message once the result is
in the database. If the worker dies, the message becomes visible again. Messages may arrive twice,
late or out of order: the database decides whether one is still valid.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pydantic

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class StageMessage:
    """A volume to be processed by the stage of the queue.

    attempt counts the messages of a task, whether for the next stage, a retry or a re-run. Only
    the newest is valid.
    """

    task_id: int
    job_id: int
    volume_id: int
    bdrc_w_id: str
    bdrc_i_id: str
    attempt: int
    job_key: str

    @classmethod
    def parse(cls, body: object) -> StageMessage | None:
        """Parse the body of a message; return None if it is invalid."""
        try:
            return _MESSAGE_ADAPTER.validate_python(body)
        except pydantic.ValidationError:
            return None

    def as_json(self) -> dict[str, Any]:
        """Return the body of the message."""
        return dataclasses.asdict(self)

    @property
    def group_id(self) -> str:
        """Return the id of the group whose messages are delivered one at a time: the volume."""
        return str(self.volume_id)

    def deduplication_id(self, stage: str) -> str:
        """Return an id that is the same whenever this message is sent again."""
        return f"{self.task_id}-{stage}-{self.attempt}"


_MESSAGE_ADAPTER = pydantic.TypeAdapter(StageMessage)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A received message: the stage of its queue, its receipt handle, and its body."""

    stage: str
    handle: str
    body: object


class StageQueue(Protocol):
    """The queues as workers use them."""

    async def receive(self, stages: Sequence[str], *, seconds: float) -> Delivery | None:
        """Receive a message from the first of these stages that has one.

        The message is invisible to others for this many seconds. Queues that support long polling
        wait a few seconds for a message.
        """
        ...

    async def set_visibility(self, delivery: Delivery, seconds: float) -> None:
        """Make the message visible to others after this many seconds from now."""
        ...

    async def ack(self, delivery: Delivery) -> None:
        """Remove the message."""
        ...


class Publisher(Protocol):
    """Queues outside the database as the orchestrator uses them.

    The database fills its own queues itself, in the transaction that moves the task.
    """

    async def publish(self, stage: str, message: StageMessage) -> None:
        """Put a message into the queue of a stage; idempotent."""
        ...

    async def is_empty(self, stage: str) -> bool:
        """Return whether the queue of a stage has no messages; an approximation."""
        ...

    async def get_retention_seconds(self, stage: str) -> int:
        """Return how long the queue of a stage keeps unreceived messages."""
        ...
