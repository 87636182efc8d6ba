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
from pagewarden.volumes import messages, orchestrator, outbox, queues, stages
from pagewarden.volumes.queues import sqs
from tests.volumes import cloud, house, program, siege

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = messages.Message(7, 1, 3, "W1", "I1", 1, "key")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Run the one cloud of this module."""
    with cloud.running() as endpoint:
        yield endpoint


@pytest.fixture
def moto(server: str) -> cloud.Cloud:
    """Have queues and a bucket that are empty."""
    return cloud.new(server)


@pytest.fixture
def there(moto: cloud.Cloud) -> Iterator[settings.Settings]:
    """Have settings that lead there."""
    with mock.patch.dict(os.environ, moto.environment):
        yield settings.Settings()


def _publisher(chosen: settings.Settings) -> queues.Publisher:
    publisher = queues.open_publisher(chosen)
    assert publisher is not None
    return publisher


async def _look(home: house.House, chosen: settings.Settings) -> orchestrator.Seen:
    seen = await orchestrator.Orchestrator(home.link, "test", _publisher(chosen)).look()
    assert seen is not None
    return seen


async def _let_pass(home: house.House, time: str) -> None:
    """Let all that was published, and looked for, have been so much earlier."""
    for table, column in (
        ("volume_tasks", "published_at"),
        ("private.volume_orchestrator_state", "reconciled_at"),
    ):
        query = f"update {table} set {column} = {column} - interval '{time}'"
        await home.conn.execute(query.encode())


async def test_a_message_is_sent_received_extended_and_deleted(
    home: house.House, there: settings.Settings
) -> None:
    """What is sent twice comes once; what is in hand comes to nobody; what is deleted is gone."""
    queue = queues.open_queue(there, home.link, stages.STAGES)
    publisher = _publisher(there)
    assert await publisher.is_empty("ocr")
    for _ in range(2):
        await publisher.publish("ocr", MESSAGE)
    assert not await publisher.is_empty("ocr")
    delivery = await queue.receive(stages.STAGES, seconds=20)
    assert delivery is not None
    assert (delivery.stage, messages.Message.parse(delivery.body)) == ("ocr", MESSAGE)
    assert await queue.receive(stages.STAGES, seconds=20) is None
    await queue.extend(delivery, 0)
    again = await queue.receive(stages.STAGES, seconds=20)
    assert again is not None
    await queue.ack(again)
    await queue.ack(delivery)  # a handle that no longer counts does no harm
    assert await publisher.is_empty("ocr")


async def test_what_is_published_again_is_not_swallowed(
    moto: cloud.Cloud, there: settings.Settings
) -> None:
    """A second publication of the same stage within five minutes has another number."""
    publisher = _publisher(there)
    later = messages.Message(**MESSAGE.as_json() | {"attempt": 2})
    for message in (MESSAGE, later):
        await publisher.publish("ocr", message)
    assert moto.count("ocr") == 2


async def test_a_queue_that_is_not_there_is_named(
    home: house.House, there: settings.Settings
) -> None:
    """And one that cannot be reached is an outage; neither costs a volume anything."""
    missing = there.model_copy(update={"sqs_ocr_url": f"{there.sqs_ocr_url}-nope"})
    with pytest.raises(errors.QueueUnusable, match="there is no queue"):
        await queues.open_queue(missing, home.link, ["ocr"]).receive(["ocr"], seconds=1)
    nowhere = there.model_copy(
        update={"sqs_endpoint": "http://127.0.0.1:1", "sqs_ocr_url": "http://127.0.0.1:1/1/x.fifo"}
    )
    with pytest.raises(errors.QueueAway, match="cannot be reached"):
        await queues.open_queue(nowhere, home.link, ["ocr"]).receive(["ocr"], seconds=1)


def _refusing(there: settings.Settings, call: str, code: str) -> sqs.SqsQueues:
    """Have queues that answer a call as Amazon would; moto's server takes what Amazon does not."""
    client = sqs.connect(endpoint=None, region="us-east-1")
    stubber = botocore.stub.Stubber(client)
    stubber.add_client_error(call, service_error_code=code)
    stubber.activate()
    return sqs.SqsQueues({"ocr": str(there.sqs_ocr_url)}, client)


async def test_a_queue_that_is_not_fifo_is_told(there: settings.Settings) -> None:
    """It takes no message of ours, and nobody believes that it did."""
    standard = _refusing(there, "send_message", "InvalidParameterValue")
    with pytest.raises(errors.QueueUnusable, match="must be a FIFO queue"):
        await standard.publish("ocr", MESSAGE)
    with pytest.raises(errors.QueueUnusable):
        await _refusing(there, "receive_message", "InvalidParameterValue").receive(
            ["ocr"], seconds=20
        )


@pytest.mark.parametrize("code", ["ReceiptHandleIsInvalid", "InvalidParameterValue"])
async def test_a_handle_that_no_longer_counts_matters_to_nobody(
    there: settings.Settings, code: str
) -> None:
    """When a message is kept or removed."""
    delivery = queues.Delivery("ocr", "handle", None)
    await _refusing(there, "change_message_visibility", code).extend(delivery, 20)
    await _refusing(there, "delete_message", code).ack(delivery)


def test_settings_that_name_too_few_queues_are_refused(
    home: house.House, there: settings.Settings
) -> None:
    """With the variables that are missing; one URL is enough for who serves one stage."""
    few = there.model_copy(update={"sqs_reduce_url": None})
    with pytest.raises(errors.SettingsError, match="SQS_REDUCE_URL"):
        queues.open_publisher(few)
    with pytest.raises(errors.SettingsError, match="SQS_QUEUE_URL"):
        queues.open_queue(few, home.link, ["reduce"])
    own = few.model_copy(update={"sqs_queue_url": there.sqs_reduce_url})
    assert queues.open_queue(own, home.link, ["reduce"])
    plain = settings.Settings(volume_queue="pgmq")
    assert queues.open_publisher(plain) is None


async def test_messages_are_sent_after_the_commit(
    home: house.House, moto: cloud.Cloud, there: settings.Settings
) -> None:
    """The outbox is empty then, and nothing is sent again that is in its queue."""
    await home.order("W1-I1", "W1-I2")
    seen = await _look(home, there)
    assert (seen.published, seen.sent, moto.count("line_detection")) == (2, 2, 2)
    assert await home.rows("select count(*) from private.volume_outbox") == [(0,)]
    await _let_pass(home, "1 hour")
    assert (await _look(home, there)).sent == 0


async def test_every_look_finds_what_a_queue_has_lost(
    home: house.House, moto: cloud.Cloud, there: settings.Settings
) -> None:
    """A queue that was purged gets it once more, after ten minutes, whoever looks then."""
    await home.order("W1-I1", "W1-I2")
    await _look(home, there)
    moto.purge("line_detection")
    assert (await _look(home, there)).sent == 0
    await _let_pass(home, "11 minutes")
    assert (await _look(home, there)).sent == 2
    assert moto.count("line_detection") == 2
    assert await home.violations() == []


async def test_what_a_queue_has_kept_for_too_long_is_sent_again(
    home: house.House, moto: cloud.Cloud, there: settings.Settings
) -> None:
    """Also while others are in it: it keeps messages for some days, and loses them one by one."""
    await home.order("W1-I1", "W1-I2")
    await _look(home, there)
    await _let_pass(home, "1 day")
    assert (await _look(home, there)).sent == 0
    moto.keep("line_detection", seconds=3600)
    await _let_pass(home, "59 minutes")
    assert (await _look(home, there)).sent == 2
    await _let_pass(home, "59 minutes")
    assert (await _look(home, there)).sent == 0


async def test_a_queue_that_cannot_be_asked_holds_up_no_other(
    home: house.House, moto: cloud.Cloud, there: settings.Settings
) -> None:
    """What others have lost is found all the same."""
    await home.order("W1-I1")
    await _look(home, there)
    moto.purge("line_detection")
    await _let_pass(home, "11 minutes")
    away = there.model_copy(update={"sqs_reduce_url": f"{there.sqs_reduce_url}-nope"})
    assert (await _look(home, away)).sent == 1


async def test_a_queue_that_is_away_costs_no_message(
    home: house.House, there: settings.Settings
) -> None:
    """What could not be sent stays in the outbox, and is sent when the queue is back."""
    await home.order("W1-I1")
    away = there.model_copy(update={"sqs_line_detection_url": "http://127.0.0.1:1/1/x.fifo"})
    away = away.model_copy(update={"sqs_endpoint": "http://127.0.0.1:1"})
    with pytest.raises(errors.QueueAway):
        await _look(home, away)
    await home.conn.execute("update private.volume_outbox set claimed_until = now()")
    seen = await _look(home, there)
    assert (seen.published, seen.sent) == (0, 1)


async def test_a_queue_that_is_away_holds_up_no_other(
    home: house.House, moto: cloud.Cloud, there: settings.Settings
) -> None:
    """What is for others is sent, however much waits for the one; then its error is raised."""
    await home.order(*(f"W1-I{n}" for n in range(150)), job_key="many")
    await home.order("W2-I1")
    await home.link.orchestrate_volumes(queue="sqs", process="test")
    await home.conn.execute(
        "update private.volume_outbox set stage = 'ocr' where message ->> 'job_key' = 'many'"
    )
    away = there.model_copy(update={"sqs_ocr_url": f"{there.sqs_ocr_url}-nope"})
    with pytest.raises(errors.QueueUnusable, match="-nope"):
        await outbox.drain(home.link, _publisher(away))
    assert moto.count("line_detection") == 1
    assert await home.rows("select stage, count(*) from private.volume_outbox group by 1") == [
        ("ocr", 150)
    ]


def _programs(home: house.House, moto: cloud.Cloud) -> list[program.Orders]:
    """Have a worker for each stage, which knows its own queue only, and an orchestrator."""
    known = {key: value for key, value in moto.environment.items() if "SQS" not in key}
    crew = [
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
    return [*crew, leader]


@pytest.mark.parametrize(
    ("volumes", "deaths", "pause"),
    [(4, 4, 0.5), pytest.param(30, 50, 0.6, marks=pytest.mark.long)],
    ids=["short", "long"],
)
async def test_four_worker_processes_read_volumes_over_sqs_and_s3(
    home: house.House, moto: cloud.Cloud, volumes: int, deaths: int, pause: float
) -> None:
    """Some of them are killed, messages come twice; artifacts are those of a quiet run on disk."""
    names = [f"W{n}-I{n}" for n in range(volumes)]
    await home.order(*names, job_key="key")
    await home.work(home.worker())
    expected = house.artifacts_of(home.output)
    await home.conn.execute("delete from volume_jobs")
    await home.order(*names, job_key="key")

    async def is_over() -> bool:
        return await home.rows("select status <> 'running' from volume_jobs") == [(True,)]

    async def mix_up(chance: siege.Chance) -> None:
        await asyncio.to_thread(functools.partial(moto.double, chance))

    async with siege.laid(_programs(home, moto), seed=1) as laid:
        await siege.storm(laid, deaths=deaths, pause=pause, mix_up=mix_up, is_over=is_over)

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
