"""Stage queues: in Postgres (pgmq, the default), or SQS FIFO queues; open those of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pagewarden import errors
from pagewarden.volumes import stages as stages_module
from pagewarden.volumes.queues import pgmq
from pagewarden.volumes.queues.base import Delivery, Publisher, StageQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from pagewarden.volumes.queues import base, sqs

QueueKind = Literal["pgmq", "sqs"]


def get_queue_kind(settings: Settings) -> QueueKind:
    """Return the kind of queue: that of the settings, or SQS if they have a queue URL."""
    if settings.volume_queue is not None:
        return settings.volume_queue
    return "sqs" if settings.sqs_queue_url or any(_get_sqs_urls(settings).values()) else "pgmq"


def open_queue(settings: Settings, database: Database, stages: Sequence[str]) -> base.StageQueue:
    """Open the queue from which workers of these stages receive; this sends nothing."""
    if get_queue_kind(settings) == "pgmq":
        return pgmq.PgmqQueue(database)
    urls = _get_sqs_urls(settings)
    if settings.sqs_queue_url and len(stages) == 1:
        urls = {stages[0]: settings.sqs_queue_url}
    return _open_sqs(settings, urls, stages)


def open_publisher(settings: Settings) -> base.Publisher | None:
    """Open the publisher of the orchestrator; None if the database itself publishes messages."""
    if get_queue_kind(settings) == "pgmq":
        return None
    return _open_sqs(settings, _get_sqs_urls(settings), stages_module.STAGES)


def _get_sqs_urls(settings: Settings) -> Mapping[str, str | None]:
    return {
        "line_detection": settings.sqs_line_detection_url,
        "line_extraction": settings.sqs_line_extraction_url,
        "ocr": settings.sqs_ocr_url,
        "reduce": settings.sqs_reduce_url,
    }


def _open_sqs(
    settings: Settings, urls: Mapping[str, str | None], stages: Sequence[str]
) -> sqs.SqsQueues:
    # Most installations do not use SQS, and boto3 loads slowly.
    from pagewarden.volumes.queues import sqs  # noqa: PLC0415

    known = {stage: url for stage in stages if (url := urls.get(stage))}
    missing = [f"SQS_{stage.upper()}_URL" for stage in stages if stage not in known]
    if missing:
        also = ", or SQS_QUEUE_URL" if len(stages) == 1 else ""
        raise errors.SettingsError(f"missing SQS queue URLs; set {', '.join(missing)}{also}")
    endpoint = str(settings.sqs_endpoint) if settings.sqs_endpoint else None
    return sqs.SqsQueues(known, sqs.connect(endpoint=endpoint, region=settings.sqs_region))


__all__ = [
    "Delivery",
    "Publisher",
    "StageQueue",
    "get_queue_kind",
    "open_publisher",
    "open_queue",
]
