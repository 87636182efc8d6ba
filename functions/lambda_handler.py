"""AWS Lambda entry point: HTTP requests, and scheduled events of EventBridge."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import TYPE_CHECKING, Any

import httpx
from mangum import Mangum
from mangum.protocols import LifespanCycle

from pagewarden import settings
from pagewarden.auth import keys
from pagewarden.functions import (
    alerts,
    app,
    ocr_universal,
    ocr_worker,
    pdf_extract,
    pdf_worker,
    pool_manager,
    retention,
    stale_monitor,
    volume_orchestrator,
    webhooks,
)
from pagewarden.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from mangum.types import LambdaContext, LambdaEvent

WORKERS = frozenset({ocr_worker.NAME, pdf_worker.NAME})
READERS = WORKERS | {ocr_universal.NAME, pdf_extract.NAME}
SCHEDULED = WORKERS | {
    alerts.NAME,
    pool_manager.NAME,
    retention.NAME,
    stale_monitor.NAME,
    volume_orchestrator.NAME,
    webhooks.NAME,
}
MARGIN_SECONDS = 15.0
"""Time reserved after a worker's budget, to save finished pages and release the rest."""

_SCHEDULERS = frozenset({"aws.events", "aws.scheduler"})
_MIN_BUDGET_SECONDS = 1.0


class UnknownEvent(ValueError):
    """The event is of an unknown type, or its schedule names no function."""


class ScheduledCallFailed(Exception):
    """A scheduled function failed; AWS reports the error."""


class LambdaHandler:
    """Handles Lambda events; the first call opens the services, later calls reuse them.

    All calls share one event loop, because connections belong to the loop that opened them.
    """

    def __init__(self, create_app: Callable[[], FastAPI], secret_key: Callable[[], str]) -> None:
        self._create_app = create_app
        self._secret_key = secret_key
        self._loop = asyncio.new_event_loop()
        self._open: tuple[FastAPI, LifespanCycle] | None = None

    def __call__(self, event: LambdaEvent, context: LambdaContext) -> dict[str, Any]:
        """Respond to a request, or call the function that a schedule names."""
        budget = _get_budget_seconds(context)
        if event.get("source") in _SCHEDULERS:
            name = scheduled_function(event)
            return self._loop.run_until_complete(self._call(self._open_app(), name, budget))
        if "http" not in event.get("requestContext", {}):
            raise UnknownEvent(
                "unknown event: expected an HTTP API request (payload version 2.0), a function "
                "URL request, or an EventBridge scheduled event"
            )
        adapter = Mangum(self._open_app(), lifespan="off")
        response: dict[str, Any] = adapter(_limit_budget(event, budget), context)
        return response

    def close(self) -> None:
        """Close the services."""
        if self._open is not None:
            asyncio.set_event_loop(self._loop)
            self._open[1].__exit__(None, None, None)
            self._open = None
        asyncio.set_event_loop(None)
        self._loop.close()

    def _open_app(self) -> FastAPI:
        """Return the app; the first call opens its services."""
        asyncio.set_event_loop(self._loop)  # Mangum uses the loop of the thread
        if self._open is None:
            new_app = self._create_app()
            lifespan = LifespanCycle(new_app, "on")
            lifespan.__enter__()
            self._open = new_app, lifespan
        return self._open[0]

    async def _call(self, fastapi_app: FastAPI, name: str, budget: float) -> dict[str, Any]:
        """Call a function with the secret key."""
        transport = httpx.ASGITransport(fastapi_app)
        async with httpx.AsyncClient(transport=transport, base_url="http://lambda") as client:
            response = await client.post(
                f"{app.PREFIX}/{name}",
                headers={"apikey": self._secret_key()},
                json={"budget_seconds": budget} if name in WORKERS else {},
            )
        if not response.is_success:
            raise ScheduledCallFailed(f"{name} returned {response.status_code}: {response.text}")
        result: dict[str, Any] = response.json()
        return result


def _create_app() -> FastAPI:
    logs.configure()
    return app.create_app()


def make_handler(
    create_app: Callable[[], FastAPI] = _create_app,
    secret_key: Callable[[], str] = lambda: keys.load_keys(settings.load()).secret_key,
) -> LambdaHandler:
    """Return the handler of Lambda events; it opens nothing before its first call."""
    return LambdaHandler(create_app, secret_key)


def _get_budget_seconds(context: LambdaContext) -> float:
    left = context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS
    return max(left, _MIN_BUDGET_SECONDS)


def scheduled_function(event: LambdaEvent) -> str:
    """Return the name of the function to call on a scheduled event.

    The name is in `detail`, or ends the name of the rule or schedule.
    """
    named = _get_detail(event).get("function")
    rule = "" if named else "".join(event.get("resources", [])[:1])
    for name in SCHEDULED:
        if named == name or rule.endswith((f"/{name}", f"-{name}")):
            return name
    raise UnknownEvent(
        f"{named or rule!r} is not a scheduled function; set the schedule's input to "
        '{"source": "aws.scheduler", "detail": {"function": NAME}}, where NAME is one of '
        f"{', '.join(sorted(SCHEDULED))}"
    )


def _get_detail(event: LambdaEvent) -> dict[str, Any]:
    detail = event.get("detail")
    if isinstance(detail, str):  # the default input of EventBridge Scheduler
        with contextlib.suppress(ValueError):
            detail = json.loads(detail)
    return detail if isinstance(detail, dict) else {}


def _limit_budget(event: LambdaEvent, seconds: float) -> LambdaEvent:
    """Limit the budget of a worker function called over HTTP to the time left."""
    path = event["requestContext"]["http"]["path"]
    if path.removeprefix(f"{app.PREFIX}/") not in READERS:
        return event
    body = event.get("body") or "{}"
    try:
        fields = json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)
        fields["budget_seconds"] = min(seconds, fields.get("budget_seconds") or seconds)
    except (ValueError, TypeError, AttributeError):
        return event  # the function reports the invalid body
    headers = {"content-type": "application/json"} | event["headers"]
    return event | {"body": json.dumps(fields), "isBase64Encoded": False, "headers": headers}


handler = make_handler()
