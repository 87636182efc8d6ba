"""Stage queues in Amazon SQS: one FIFO queue for each stage."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3  # type: ignore[import-untyped]  # it creates its classes at run time
import botocore.config  # type: ignore[import-untyped]
import botocore.exceptions  # type: ignore[import-untyped]

from pagewarden import errors
from pagewarden.volumes.queues import base

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# A worker notices a stop only after the poll; a longer one would only save requests.
LONG_POLL_SECONDS = 5
# The limit of SQS.
MAX_VISIBILITY_SECONDS = 43_200

_COUNT_ATTRIBUTES = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_RETENTION_ATTRIBUTE = "MessageRetentionPeriod"
_MISSING_CODES = frozenset({"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"})
_ACCESS_DENIED_CODES = frozenset(
    {"AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch"}
)
# Calls with a receipt handle: it has expired, because the message was deleted or received again.
_STALE_HANDLE_CODES = frozenset(
    {"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"}
)
# Calls without a receipt handle: the queue supports neither groups nor deduplication.
_NOT_FIFO_CODES = frozenset(
    {"InvalidParameterValue", "InvalidParameterCombination", "MissingParameter"}
)


@dataclass(frozen=True, slots=True)
class SqsQueues:
    """The queues of stages, by their URLs."""

    urls: Mapping[str, str]
    client: Any

    async def receive(self, stages: Sequence[str], *, seconds: float) -> base.Delivery | None:
        """Receive a message; use long polling if there is only one stage."""
        wait = LONG_POLL_SECONDS if len(stages) == 1 else 0
        for stage in stages:
            answer = await self._call(
                "receive_message",
                stage,
                MaxNumberOfMessages=1,
                WaitTimeSeconds=wait,
                VisibilityTimeout=_clamp_visibility(seconds),
            )
            for message in answer.get("Messages", ()):
                return base.Delivery(stage, message["ReceiptHandle"], _parse_body(message["Body"]))
        return None

    async def set_visibility(self, delivery: base.Delivery, seconds: float) -> None:
        """Change the visibility timeout of a message."""
        with _ignore_stale_handle():
            await self._call(
                "change_message_visibility",
                delivery.stage,
                ReceiptHandle=delivery.handle,
                VisibilityTimeout=_clamp_visibility(seconds),
            )

    async def ack(self, delivery: base.Delivery) -> None:
        """Delete a message."""
        with _ignore_stale_handle():
            await self._call("delete_message", delivery.stage, ReceiptHandle=delivery.handle)

    async def publish(self, stage: str, message: base.StageMessage) -> None:
        """Send a message; SQS drops duplicates sent within five minutes."""
        await self._call(
            "send_message",
            stage,
            MessageBody=json.dumps(message.as_json()),
            MessageGroupId=message.group_id,
            MessageDeduplicationId=message.deduplication_id(stage),
        )

    async def is_empty(self, stage: str) -> bool:
        """Return whether there are no visible, invisible or delayed messages."""
        attributes = await self._fetch_attributes(stage, *_COUNT_ATTRIBUTES)
        return not any(int(attributes.get(name, 0)) for name in _COUNT_ATTRIBUTES)

    async def get_retention_seconds(self, stage: str) -> int:
        """Return the retention period, which is at most 14 days."""
        return int(
            (await self._fetch_attributes(stage, _RETENTION_ATTRIBUTE))[_RETENTION_ATTRIBUTE]
        )

    async def _fetch_attributes(self, stage: str, *names: str) -> Mapping[str, str]:
        answer = await self._call("get_queue_attributes", stage, AttributeNames=list(names))
        attributes: Mapping[str, str] = answer["Attributes"]
        return attributes

    async def _call(self, name: str, stage: str, **arguments: object) -> dict[str, Any]:
        url = self.urls[stage]
        with _translate_errors(url):
            answer: dict[str, Any] = await asyncio.to_thread(
                getattr(self.client, name), QueueUrl=url, **arguments
            )
            return answer


def connect(*, endpoint: str | None, region: str | None) -> Any:  # noqa: ANN401  # as above
    """Create a client; its keys are those of AWS_… variables, or of the role of the machine."""
    config = botocore.config.Config(
        connect_timeout=10,
        read_timeout=LONG_POLL_SECONDS + 15,
        # Few, because callers retry, and a lost message becomes visible again.
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    try:
        return boto3.client("sqs", endpoint_url=endpoint, region_name=region, config=config)
    except botocore.exceptions.NoRegionError as exc:
        raise errors.SettingsError(
            "SQS requires a region; set PAGEWARDEN_SQS_REGION or AWS_REGION"
        ) from exc


@contextlib.contextmanager
def _ignore_stale_handle() -> Iterator[None]:
    """Ignore the error that a receipt handle has expired."""
    try:
        yield
    except errors.QueueError as exc:
        if _get_error_code(exc.__cause__) not in _STALE_HANDLE_CODES:
            raise


@contextlib.contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Translate errors of boto3 into QueueErrors."""
    try:
        yield
    except botocore.exceptions.ClientError as exc:
        code = _get_error_code(exc)
        if code in _MISSING_CODES:
            raise errors.QueueMisconfigured(
                f"there is no queue {url}; create it, or correct the URL"
            ) from exc
        if code in _ACCESS_DENIED_CODES:
            raise errors.QueueMisconfigured(
                f"access to the queue {url} was denied; check the AWS keys and their permissions "
                "to send, receive, delete and change messages"
            ) from exc
        if code in _NOT_FIFO_CODES:
            raise errors.QueueMisconfigured(
                f"the queue {url} rejected the request; it must be a FIFO queue ({exc})"
            ) from exc
        raise errors.QueueUnavailable(f"the queue {url} failed: {exc}") from exc
    except botocore.exceptions.NoCredentialsError as exc:
        raise errors.QueueMisconfigured(
            f"no credentials for {url}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from exc
    except (botocore.exceptions.BotoCoreError, OSError) as exc:
        raise errors.QueueUnavailable(f"the queue {url} cannot be reached: {exc}") from exc


def _get_error_code(exc: BaseException | None) -> str:
    """Return the error code of AWS; an empty string for any other error."""
    if not isinstance(exc, botocore.exceptions.ClientError):
        return ""
    return str(exc.response.get("Error", {}).get("Code", ""))


def _clamp_visibility(seconds: float) -> int:
    return min(math.ceil(seconds), MAX_VISIBILITY_SECONDS)


def _parse_body(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
