"""Volumes over SQS and S3, with a worker process for each stage."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from typing import TYPE_CHECKING
from unittest import mock

import botocore.stub  # type: ignore[import-untyped]  # it makes its classes at run time
import pytest

from pagewarden import errors, settings
from pagewarden.volumes import orchestrator, queues, stages
from pagewarden.volumes.queues import base, sqs
from tests.volumes import chaos, cloud, house, program

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = base.StageMessage(7, 1, 3, "W1", "I1", 1, "key")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Run a moto server."""
    with cloud.start_server() as endpoint:
        yield endpoint


@pytest.fixture
def moto(server: str) -> cloud.Cloud:
    """Create empty queues and an empty bucket."""
    return cloud.create(server)


@pytest.fixture
def sqs_settings(moto: cloud.Cloud) -> Iterator[settings.Settings]:
    """Return settings that name them."""
    with mock.patch.dict(os.environ, moto.environment):
        yield settings.Settings()


def _publisher(chosen: settings.Settings) -> queues.Publisher:
    publisher = queues.open_publisher(chosen)
    assert publisher is not None
    return publisher


async def _step(home: house.House, chosen: settings.Settings) -> orchestrator.StepResult:
    seen = await orchestrator.Orchestrator(home.link, "test", _publisher(chosen)).step()
    assert seen is not None
    return seen


async def _move_back(home: house.House, time: str) -> None:
    """Move publications and the last reconciliation back in time."""
    for table, column in (
        ("volume_tasks", "published_at"),
        ("private.volume_orchestrator_state", "reconciled_at"),
    ):
        query = f"update {table} set {column} = {column} - interval '{time}'"
        await home.conn.execute(query.encode())


async def test_a_message_is_sent_received_extended_and_deleted(
    home: house.House, sqs_settings: settings.Settings
) -> None:
    """Duplicates are dropped, received messages are invisible, deleted ones are removed."""
    queue = queues.open_queue(sqs_settings, home.link, stages.STAGES)
    publisher = _publisher(sqs_settings)
    assert await publisher.is_empty("ocr")
    for _ in range(2):
        await publisher.publish("ocr", MESSAGE)
    assert not await publisher.is_empty("ocr")
    delivery = await queue.receive(stages.STAGES, seconds=20)
    assert delivery is not None
    assert (delivery.stage, base.StageMessage.parse(delivery.body)) == ("ocr", MESSAGE)
    assert await queue.receive(stages.STAGES, seconds=20) is None
    await queue.set_visibility(delivery, 0)
    again = await queue.receive(stages.STAGES, seconds=20)
    assert again is not None
    await queue.ack(again)
    await queue.ack(delivery)  # an expired handle is harmless
    assert await publisher.is_empty("ocr")


async def test_republished_messages_are_not_dropped_as_duplicates(
    moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """A second publication of a stage within five minutes has another deduplication id."""
    publisher = _publisher(sqs_settings)
    later = base.StageMessage(**MESSAGE.as_json() | {"attempt": 2})
    for message in (MESSAGE, later):
        await publisher.publish("ocr", message)
    assert moto.count("ocr") == 2


async def test_a_missing_queue_is_named(home: house.House, sqs_settings: settings.Settings) -> None:
    """And an unreachable queue is an outage."""
    missing = sqs_settings.model_copy(update={"sqs_ocr_url": f"{sqs_settings.sqs_ocr_url}-nope"})
    with pytest.raises(errors.QueueMisconfigured, match="there is no queue"):
        await queues.open_queue(missing, home.link, ["ocr"]).receive(["ocr"], seconds=1)
    nowhere = sqs_settings.model_copy(
        update={"sqs_endpoint": "http://127.0.0.1:1", "sqs_ocr_url": "http://127.0.0.1:1/1/x.fifo"}
    )
    with pytest.raises(errors.QueueUnavailable, match="cannot be reached"):
        await queues.open_queue(nowhere, home.link, ["ocr"]).receive(["ocr"], seconds=1)


def _refusing(sqs_settings: settings.Settings, call: str, code: str) -> sqs.SqsQueues:
    """Return queues that fail a call as AWS does; moto is less strict."""
    client = sqs.connect(endpoint=None, region="us-east-1")
    stubber = botocore.stub.Stubber(client)
    stubber.add_client_error(call, service_error_code=code)
    stubber.activate()
    return sqs.SqsQueues({"ocr": str(sqs_settings.sqs_ocr_url)}, client)


async def test_a_queue_that_is_not_fifo_is_refused(sqs_settings: settings.Settings) -> None:
    """Sending and receiving raise an error."""
    standard = _refusing(sqs_settings, "send_message", "InvalidParameterValue")
    with pytest.raises(errors.QueueMisconfigured, match="must be a FIFO queue"):
        await standard.publish("ocr", MESSAGE)
    with pytest.raises(errors.QueueMisconfigured):
        await _refusing(sqs_settings, "receive_message", "InvalidParameterValue").receive(
            ["ocr"], seconds=20
        )


@pytest.mark.parametrize("code", ["ReceiptHandleIsInvalid", "InvalidParameterValue"])
async def test_expired_handles_are_ignored(sqs_settings: settings.Settings, code: str) -> None:
    """When a message is extended or removed."""
    delivery = queues.Delivery("ocr", "handle", None)
    await _refusing(sqs_settings, "change_message_visibility", code).set_visibility(delivery, 20)
    await _refusing(sqs_settings, "delete_message", code).ack(delivery)


def test_settings_that_name_too_few_queues_are_refused(
    home: house.House, sqs_settings: settings.Settings
) -> None:
    """The error names the missing variables; a worker of one stage needs only one URL."""
    few = sqs_settings.model_copy(update={"sqs_reduce_url": None})
    with pytest.raises(errors.SettingsError, match="SQS_REDUCE_URL"):
        queues.open_publisher(few)
    with pytest.raises(errors.SettingsError, match="SQS_QUEUE_URL"):
        queues.open_queue(few, home.link, ["reduce"])
    own = few.model_copy(update={"sqs_queue_url": sqs_settings.sqs_reduce_url})
    assert queues.open_queue(own, home.link, ["reduce"])
    plain = settings.Settings(volume_queue="pgmq")
    assert queues.open_publisher(plain) is None


async def test_messages_are_sent_after_the_commit(
    home: house.House, moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """The outbox is empty then, and messages in their queue are not sent again."""
    await home.order("W1-I1", "W1-I2")
    seen = await _step(home, sqs_settings)
    assert (seen.published, seen.sent, moto.count("line_detection")) == (2, 2, 2)
    assert await home.rows("select count(*) from private.volume_outbox") == [(0,)]
    await _move_back(home, "1 hour")
    assert (await _step(home, sqs_settings)).sent == 0


async def test_messages_lost_by_a_queue_are_sent_again(
    home: house.House, moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """Ten minutes later, after the queue was purged."""
    await home.order("W1-I1", "W1-I2")
    await _step(home, sqs_settings)
    moto.purge("line_detection")
    assert (await _step(home, sqs_settings)).sent == 0
    await _move_back(home, "11 minutes")
    assert (await _step(home, sqs_settings)).sent == 2
    assert moto.count("line_detection") == 2
    assert await home.violations() == []


async def test_messages_beyond_the_retention_period_are_sent_again(
    home: house.House, moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """Even if the queue is not empty: it loses messages one by one."""
    await home.order("W1-I1", "W1-I2")
    await _step(home, sqs_settings)
    await _move_back(home, "1 day")
    assert (await _step(home, sqs_settings)).sent == 0
    moto.set_retention("line_detection", seconds=3600)
    await _move_back(home, "59 minutes")
    assert (await _step(home, sqs_settings)).sent == 2
    await _move_back(home, "59 minutes")
    assert (await _step(home, sqs_settings)).sent == 0


async def test_an_unavailable_queue_does_not_delay_the_check_of_others(
    home: house.House, moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """Messages lost by other queues are found."""
    await home.order("W1-I1")
    await _step(home, sqs_settings)
    moto.purge("line_detection")
    await _move_back(home, "11 minutes")
    away = sqs_settings.model_copy(update={"sqs_reduce_url": f"{sqs_settings.sqs_reduce_url}-nope"})
    assert (await _step(home, away)).sent == 1


async def test_an_unavailable_queue_loses_no_message(
    home: house.House, sqs_settings: settings.Settings
) -> None:
    """Unsent messages stay in the outbox until the queue is back."""
    await home.order("W1-I1")
    away = sqs_settings.model_copy(update={"sqs_line_detection_url": "http://127.0.0.1:1/1/x.fifo"})
    away = away.model_copy(update={"sqs_endpoint": "http://127.0.0.1:1"})
    with pytest.raises(errors.QueueUnavailable):
        await _step(home, away)
    await home.conn.execute("update private.volume_outbox set claimed_until = now()")
    seen = await _step(home, sqs_settings)
    assert (seen.published, seen.sent) == (0, 1)


async def test_an_unavailable_queue_does_not_delay_others(
    home: house.House, moto: cloud.Cloud, sqs_settings: settings.Settings
) -> None:
    """Messages for other queues are sent first; then its error is raised."""
    await home.order(*(f"W1-I{n}" for n in range(150)), job_key="many")
    await home.order("W2-I1")
    await home.link.orchestrate_volumes(queue="sqs", process="test")
    await home.conn.execute(
        "update private.volume_outbox set stage = 'ocr' where message ->> 'job_key' = 'many'"
    )
    away = sqs_settings.model_copy(update={"sqs_ocr_url": f"{sqs_settings.sqs_ocr_url}-nope"})
    with pytest.raises(errors.QueueMisconfigured, match="-nope"):
        await orchestrator.send_outbox(home.link, _publisher(away))
    assert moto.count("line_detection") == 1
    assert await home.rows("select stage, count(*) from private.volume_outbox group by 1") == [
        ("ocr", 150)
    ]


def _programs(home: house.House, moto: cloud.Cloud) -> list[program.Orders]:
    """Return an orchestrator, and a worker for each stage with the URL of its own queue only."""
    known = {key: value for key, value in moto.environment.items() if "SQS" not in key}
    stage_workers = [
        program.Orders(
            "worker",
            f"worker-{stage}",
            url=home.worker_url,
            output=f"s3://{moto.bucket}/prefix",
            stages=(stage,),
            page_seconds=0.01,
            environment=known | {"SQS_QUEUE_URL": moto.urls[stage]},
        )
        for stage in stages.STAGES
    ]
    leader = program.Orders(
        "orchestrator",
        "orchestrator",
        url=home.worker_url,
        output="",
        environment=moto.environment,
    )
    return [*stage_workers, leader]


@pytest.mark.parametrize(
    ("volumes", "kills", "pause"),
    [(4, 4, 0.5), pytest.param(30, 50, 0.6, marks=pytest.mark.long)],
    ids=["short", "long"],
)
async def test_four_worker_processes_read_volumes_over_sqs_and_s3(
    home: house.House, moto: cloud.Cloud, volumes: int, kills: int, pause: float
) -> None:
    """With kills and duplicates; artifacts equal those of an undisturbed run on disk."""
    names = [f"W{n}-I{n}" for n in range(volumes)]
    await home.order(*names, job_key="key")
    await home.work(home.worker())
    expected = house.artifacts_of(home.output)
    await home.conn.execute("delete from volume_jobs")
    await home.order(*names, job_key="key")

    async def is_over() -> bool:
        return await home.rows("select status <> 'running' from volume_jobs") == [(True,)]

    async def mix_up(random: chaos.Random) -> None:
        await asyncio.to_thread(functools.partial(moto.duplicate, random))

    async with chaos.start_programs(_programs(home, moto), seed=1) as programs:
        await chaos.kill_repeatedly(
            programs, kills=kills, pause=pause, mix_up=mix_up, is_over=is_over
        )

    assert await home.rows("select status from volume_jobs") == [("completed",)]
    made = {
        key.removeprefix("prefix/"): hashlib.sha256(content).hexdigest()
        for key, content in moto.contents().items()
        if key.endswith(".parquet")
    }
    assert made == expected
    twice = """
        select task_id, stage, attempt from volume_runs where outcome = 'done'
        group by 1, 2, 3 having count(*) > 1
    """
    assert await home.rows(twice) == []
    assert await home.violations() == []
