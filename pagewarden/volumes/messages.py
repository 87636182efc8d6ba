"""Messages of the stage queues: which volume is to go through which stage."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pydantic


@dataclass(frozen=True, slots=True)
class Message:
    """A volume that is to go through the stage in whose queue this is.

    attempt numbers the messages of a task, whatever they were published for: the next stage,
    another try, a re-run. Only the newest counts.
    """

    task_id: int
    job_id: int
    volume_id: int
    bdrc_w_id: str
    bdrc_i_id: str
    attempt: int
    job_key: str

    @classmethod
    def parse(cls, body: object) -> Message | None:
        """Read the body of a message; what is no message of ours is None."""
        try:
            return _MESSAGE.validate_python(body)
        except pydantic.ValidationError:
            return None

    def as_json(self) -> dict[str, Any]:
        """Give the body of the message."""
        return dataclasses.asdict(self)

    @property
    def group(self) -> str:
        """Name those of which one is delivered after the other: all of a volume."""
        return str(self.volume_id)

    def deduplication_id(self, stage: str) -> str:
        """Name this one message, however often it is sent."""
        return f"{self.task_id}-{stage}-{self.attempt}"


_MESSAGE = pydantic.TypeAdapter(Message)
