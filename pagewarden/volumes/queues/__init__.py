"""Queues of the stages: in Postgres (pgmq, the default), or SQS FIFO queues."""

from __future__ import annotations

from pagewarden.volumes.queues.interface import Delivery, Publisher, StageQueue
from pagewarden.volumes.queues.opening import kind_of, open_publisher, open_queue

__all__ = [
    "Delivery",
    "Publisher",
    "StageQueue",
    "kind_of",
    "open_publisher",
    "open_queue",
]
