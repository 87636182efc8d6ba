"""Which kind of queue the settings mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pagewarden import errors
from pagewarden.volumes import stages as stages_module
from pagewarden.volumes.queues import pgmq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from pagewarden.volumes.queues import interface, sqs

Kind = Literal["pgmq", "sqs"]


def kind_of(settings: Settings) -> Kind:
    """Tell which it is: SQS where a queue is named, Postgres otherwise."""
    if settings.volume_queue is not None:
        return settings.volume_queue
    return "sqs" if settings.sqs_queue_url or any(_urls(settings).values()) else "pgmq"


def open_queue(
    settings: Settings, database: Database, stages: Sequence[str]
) -> interface.StageQueue:
    """Make what workers of these stages receive from; nothing is sent yet."""
    if kind_of(settings) == "pgmq":
        return pgmq.PgmqQueue(database)
    urls = _urls(settings)
    if settings.sqs_queue_url and len(stages) == 1:
        urls = {stages[0]: settings.sqs_queue_url}
    return _connect(settings, urls, stages)


def open_publisher(settings: Settings) -> interface.Publisher | None:
    """Make what the orchestrator publishes with; None where the database does that itself."""
    if kind_of(settings) == "pgmq":
        return None
    return _connect(settings, _urls(settings), stages_module.STAGES)


def _urls(settings: Settings) -> Mapping[str, str | None]:
    return {
        "line_detection": settings.sqs_line_detection_url,
        "line_extraction": settings.sqs_line_extraction_url,
        "ocr": settings.sqs_ocr_url,
        "reduce": settings.sqs_reduce_url,
    }


def _connect(
    settings: Settings, urls: Mapping[str, str | None], stages: Sequence[str]
) -> sqs.SqsQueues:
    # Most have no SQS, and boto3 takes its time to load.
    from pagewarden.volumes.queues import sqs  # noqa: PLC0415

    known = {stage: url for stage in stages if (url := urls.get(stage))}
    missing = [f"SQS_{stage.upper()}_URL" for stage in stages if stage not in known]
    if missing:
        also = ", or SQS_QUEUE_URL" if len(stages) == 1 else ""
        raise errors.SettingsError(f"the queues are at SQS; set {', '.join(missing)}{also}")
    endpoint = str(settings.sqs_endpoint) if settings.sqs_endpoint else None
    return sqs.SqsQueues(known, sqs.connect(endpoint=endpoint, region=settings.sqs_region))
