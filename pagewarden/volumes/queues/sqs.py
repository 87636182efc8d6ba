"""Stage queues at Amazon: one SQS FIFO queue for each stage."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3  # type: ignore[import-untyped]  # it makes its classes at run time
import botocore.config  # type: ignore[import-untyped]
import botocore.exceptions  # type: ignore[import-untyped]

from pagewarden import errors
from pagewarden.volumes.queues import interface

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pagewarden.volumes import messages

# A stop is heard after so long at the latest; a longer wait would only save requests.
LONG_POLL_SECONDS = 5
# The most that SQS keeps a message from others.
LONGEST_SECONDS = 43_200

_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_KEPT = "MessageRetentionPeriod"
_MISSING = frozenset({"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"})
_REFUSED = frozenset(
    {"AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch"}
)
# Of a call with a handle: it no longer counts, the message is gone or somebody else received it.
_OUTDATED = frozenset({"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"})
# Of a call without one: the queue knows no groups and no deduplication.
_UNFIT = frozenset({"InvalidParameterValue", "InvalidParameterCombination", "MissingParameter"})


@dataclass(frozen=True, slots=True)
class SqsQueues:
    """The queues of these stages, by their URLs."""

    urls: Mapping[str, str]
    client: Any

    async def receive(self, stages: Sequence[str], *, seconds: float) -> interface.Delivery | None:
        """Receive a message; who serves one stage only waits for it at the queue."""
        wait = LONG_POLL_SECONDS if len(stages) == 1 else 0
        for stage in stages:
            answer = await self._call(
                "receive_message",
                stage,
                MaxNumberOfMessages=1,
                WaitTimeSeconds=wait,
                VisibilityTimeout=_whole(seconds),
            )
            for found in answer.get("Messages", ()):
                return interface.Delivery(stage, found["ReceiptHandle"], _body(found["Body"]))
        return None

    async def extend(self, delivery: interface.Delivery, seconds: float) -> None:
        """Change its visibility."""
        with _while_it_counts():
            await self._call(
                "change_message_visibility",
                delivery.stage,
                ReceiptHandle=delivery.handle,
                VisibilityTimeout=_whole(seconds),
            )

    async def ack(self, delivery: interface.Delivery) -> None:
        """Delete it."""
        with _while_it_counts():
            await self._call("delete_message", delivery.stage, ReceiptHandle=delivery.handle)

    async def publish(self, stage: str, message: messages.Message) -> None:
        """Send it; within five minutes SQS drops what was sent before."""
        await self._call(
            "send_message",
            stage,
            MessageBody=json.dumps(message.as_json()),
            MessageGroupId=message.group,
            MessageDeduplicationId=message.deduplication_id(stage),
        )

    async def is_empty(self, stage: str) -> bool:
        """Count what waits, what is in hand and what is delayed."""
        attributes = await self._attributes(stage, *_COUNTS)
        return not any(int(attributes.get(name, 0)) for name in _COUNTS)

    async def keeps_seconds(self, stage: str) -> int:
        """Ask for its retention period, which is 14 days at most."""
        return int((await self._attributes(stage, _KEPT))[_KEPT])

    async def _attributes(self, stage: str, *names: str) -> Mapping[str, str]:
        answer = await self._call("get_queue_attributes", stage, AttributeNames=list(names))
        found: Mapping[str, str] = answer["Attributes"]
        return found

    async def _call(self, name: str, stage: str, **arguments: object) -> dict[str, Any]:
        url = self.urls[stage]
        with _translated(url):
            answer: dict[str, Any] = await asyncio.to_thread(
                getattr(self.client, name), QueueUrl=url, **arguments
            )
            return answer


def connect(*, endpoint: str | None, region: str | None) -> Any:  # noqa: ANN401  # as above
    """Make a client; keys come from AWS_… variables, or from the role of the machine."""
    config = botocore.config.Config(
        connect_timeout=10,
        read_timeout=LONG_POLL_SECONDS + 15,
        # Whoever calls tries again later; a lost message shows again by itself.
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    try:
        return boto3.client("sqs", endpoint_url=endpoint, region_name=region, config=config)
    except botocore.exceptions.NoRegionError as exc:
        raise errors.SettingsError(
            "SQS wants to know its region; set PAGEWARDEN_SQS_REGION or AWS_REGION"
        ) from exc


@contextlib.contextmanager
def _while_it_counts() -> Iterator[None]:
    """Do something with a message by its handle; one that no longer counts matters to nobody."""
    try:
        yield
    except errors.QueueError as exc:
        if _code(exc.__cause__) not in _OUTDATED:
            raise


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Raise errors of ours."""
    try:
        yield
    except botocore.exceptions.ClientError as exc:
        code = _code(exc)
        if code in _MISSING:
            raise errors.QueueUnusable(
                f"there is no queue {url}; make it, or mend the URL"
            ) from exc
        if code in _REFUSED:
            raise errors.QueueUnusable(
                f"the queue {url} does not let us in; see to the AWS keys and their rights to "
                "send, receive, delete and change messages"
            ) from exc
        if code in _UNFIT:
            raise errors.QueueUnusable(
                f"the queue {url} does not take what we send; it must be a FIFO queue ({exc})"
            ) from exc
        raise errors.QueueAway(f"the queue {url} does not do its work: {exc}") from exc
    except botocore.exceptions.NoCredentialsError as exc:
        raise errors.QueueUnusable(
            f"there is no key for {url}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from exc
    except (botocore.exceptions.BotoCoreError, OSError) as exc:
        raise errors.QueueAway(f"the queue {url} cannot be reached: {exc}") from exc


def _code(exc: BaseException | None) -> str:
    """Name what Amazon refused a call for."""
    if not isinstance(exc, botocore.exceptions.ClientError):
        return ""
    return str(exc.response.get("Error", {}).get("Code", ""))


def _whole(seconds: float) -> int:
    return min(math.ceil(seconds), LONGEST_SECONDS)


def _body(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
