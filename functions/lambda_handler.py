"""The functions on AWS Lambda: called over HTTP, or by EventBridge on a schedule."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import TYPE_CHECKING, Any

import httpx
from mangum import Mangum
from mangum.protocols import LifespanCycle

from functions import (
    app,
    ocr_universal,
    ocr_worker,
    pdf_extract,
    pdf_worker,
    retention,
    stale_monitor,
    volume_orchestrator,
    webhooks,
)
from pagewarden import keys, settings
from pagewarden.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from mangum.types import LambdaContext, LambdaEvent

WORKERS = frozenset({ocr_worker.NAME, pdf_worker.NAME})
READERS = WORKERS | {ocr_universal.NAME, pdf_extract.NAME}
SCHEDULED = WORKERS | {
    retention.NAME,
    stale_monitor.NAME,
    volume_orchestrator.NAME,
    webhooks.NAME,
}
MARGIN_SECONDS = 15.0
"""What a worker needs after its time is up, to save what it has and give back the rest."""

_SCHEDULERS = frozenset({"aws.events", "aws.scheduler"})
_MIN_BUDGET_SECONDS = 1.0


class UnknownEvent(ValueError):
    """Lambda was called with something we do not know, or by a schedule that names nothing."""


class ScheduledCallFailed(Exception):
    """A function that a schedule called did not do its work; AWS shows it, and tries again."""


class Handler:
    """What Lambda calls; the first call opens the services, later ones find them open.

    There is one event loop for all calls, since connections belong to the loop that opened them.
    """

    def __init__(self, create_app: Callable[[], FastAPI], secret_key: Callable[[], str]) -> None:
        self._create_app = create_app
        self._secret_key = secret_key
        self._loop = asyncio.new_event_loop()
        self._open: tuple[FastAPI, LifespanCycle] | None = None

    def __call__(self, event: LambdaEvent, context: LambdaContext) -> dict[str, Any]:
        """Answer a request, or call the function that a schedule names."""
        budget = _budget_seconds(context)
        if event.get("source") in _SCHEDULERS:
            name = scheduled_function(event)
            return self._loop.run_until_complete(self._call(self._opened(), name, budget))
        if "http" not in event.get("requestContext", {}):
            raise UnknownEvent(
                "this is neither a request of an HTTP API (payload version 2.0) or of a function "
                "URL, nor a scheduled event of EventBridge"
            )
        adapter = Mangum(self._opened(), lifespan="off")
        answer: dict[str, Any] = adapter(_with_budget(event, budget), context)
        return answer

    def close(self) -> None:
        """Close the services."""
        if self._open is not None:
            asyncio.set_event_loop(self._loop)
            self._open[1].__exit__(None, None, None)
            self._open = None
        asyncio.set_event_loop(None)
        self._loop.close()

    def _opened(self) -> FastAPI:
        """Open the services, unless an earlier call has."""
        asyncio.set_event_loop(self._loop)  # Mangum takes that of the thread
        if self._open is None:
            created = self._create_app()
            lifespan = LifespanCycle(created, "on")
            lifespan.__enter__()
            self._open = created, lifespan
        return self._open[0]

    async def _call(self, opened: FastAPI, name: str, budget: float) -> dict[str, Any]:
        """Call a function as our services do."""
        transport = httpx.ASGITransport(opened)
        async with httpx.AsyncClient(transport=transport, base_url="http://lambda") as client:
            answer = await client.post(
                f"{app.PREFIX}/{name}",
                headers={"apikey": self._secret_key()},
                json={"budget_seconds": budget} if name in WORKERS else {},
            )
        if not answer.is_success:
            raise ScheduledCallFailed(f"{name} answered {answer.status_code}: {answer.text}")
        result: dict[str, Any] = answer.json()
        return result


def _created() -> FastAPI:
    logs.configure()
    return app.create_app()


def make_handler(
    create_app: Callable[[], FastAPI] = _created,
    secret_key: Callable[[], str] = lambda: keys.load(settings.load()).secret_key,
) -> Handler:
    """Make what Lambda calls; nothing is opened before its first call."""
    return Handler(create_app, secret_key)


def _budget_seconds(context: LambdaContext) -> float:
    left = context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS
    return max(left, _MIN_BUDGET_SECONDS)


def scheduled_function(event: LambdaEvent) -> str:
    """Tell which function a schedule means.

    Its name is in the detail, or at the end of the name of the rule or schedule.
    """
    named = _detail(event).get("function")
    rule = "" if named else "".join(event.get("resources", [])[:1])
    for name in SCHEDULED:
        if named == name or rule.endswith((f"/{name}", f"-{name}")):
            return name
    raise UnknownEvent(
        f"{named or rule!r} is no scheduled function; name one of {', '.join(sorted(SCHEDULED))} "
        'as {"source": "aws.scheduler", "detail": {"function": …}}, the input of the schedule'
    )


def _detail(event: LambdaEvent) -> dict[str, Any]:
    detail = event.get("detail")
    if isinstance(detail, str):  # what the Scheduler sends by itself
        with contextlib.suppress(ValueError):
            detail = json.loads(detail)
    return detail if isinstance(detail, dict) else {}


def _with_budget(event: LambdaEvent, seconds: float) -> LambdaEvent:
    """Have what reads documents, when it is called over HTTP, stop in time, too."""
    path = event["requestContext"]["http"]["path"]
    if path.removeprefix(f"{app.PREFIX}/") not in READERS:
        return event
    body = event.get("body") or "{}"
    try:
        turn = json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)
        turn["budget_seconds"] = min(seconds, turn.get("budget_seconds") or seconds)
    except (ValueError, TypeError, AttributeError):
        return event  # the worker says what is wrong with it
    headers = {"content-type": "application/json"} | event["headers"]
    return event | {"body": json.dumps(turn), "isBase64Encoded": False, "headers": headers}


handler = make_handler()
