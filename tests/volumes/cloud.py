"""Queues and a bucket of a moto server, and the environment variables that select them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import uuid
from typing import TYPE_CHECKING, Any
from unittest import mock

import boto3  # type: ignore[import-untyped]  # it makes its classes at run time
from moto.server import ThreadedMotoServer

from pagewarden.volumes import stages

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

REGION = "us-east-1"
KEYS = {
    "AWS_ACCESS_KEY_ID": "access-key",
    "AWS_SECRET_ACCESS_KEY": "secret-key",
    "AWS_DEFAULT_REGION": REGION,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Cloud:
    """One FIFO queue for each stage, and a bucket."""

    environment: Mapping[str, str]
    urls: Mapping[str, str]
    bucket: str
    sqs: Any
    s3: Any

    def duplicate(self, random: random.Random) -> None:
        """Receive a message and send a copy of it to the queue of a random stage."""
        source, target = random.choice(stages.STAGES), random.choice(stages.STAGES)
        found = self.sqs.receive_message(QueueUrl=self.urls[source], VisibilityTimeout=0)
        for message in found.get("Messages", ()):
            body = json.loads(message["Body"])
            self.sqs.send_message(
                QueueUrl=self.urls[target],
                MessageBody=message["Body"],
                MessageGroupId=str(body["volume_id"]),
                MessageDeduplicationId=uuid.uuid4().hex,
            )

    def count(self, stage: str) -> int:
        """Return the number of visible messages of a stage."""
        name = "ApproximateNumberOfMessages"
        found = self.sqs.get_queue_attributes(QueueUrl=self.urls[stage], AttributeNames=[name])
        return int(found["Attributes"][name])

    def purge(self, stage: str) -> None:
        """Empty the queue of a stage."""
        self.sqs.purge_queue(QueueUrl=self.urls[stage])

    def set_retention(self, stage: str, *, seconds: int) -> None:
        """Set the retention period of the queue of a stage."""
        self.sqs.set_queue_attributes(
            QueueUrl=self.urls[stage], Attributes={"MessageRetentionPeriod": str(seconds)}
        )

    def contents(self) -> dict[str, bytes]:
        """Return all objects in the bucket."""
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())
        return {
            entry["Key"]: self.s3.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].read()
            for entry in listed
        }


@contextlib.contextmanager
def start_server() -> Iterator[str]:
    """Run a server; yield its URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def create(endpoint: str) -> Cloud:
    """Create queues and a bucket."""
    environment = KEYS | {"AWS_REGION": REGION, "AWS_ENDPOINT_URL": endpoint}
    with mock.patch.dict(os.environ, environment):
        sqs, s3 = (boto3.client(name, endpoint_url=endpoint) for name in ("sqs", "s3"))
    number = uuid.uuid4().hex
    urls = {stage: _queue(sqs, stage, number) for stage in stages.STAGES}
    s3.create_bucket(Bucket=number)
    named = {f"SQS_{stage.upper()}_URL": url for stage, url in urls.items()}
    return Cloud(environment | named, urls, number, sqs, s3)


def _queue(sqs: Any, stage: str, number: str) -> str:
    name = f"ocr-{stage.replace('_', '-')}-{number}.fifo"
    made = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})
    return str(made["QueueUrl"])
