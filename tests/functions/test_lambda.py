"""The functions on Lambda: events as AWS sends them, answers as AWS wants them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import pytest
from fastapi import FastAPI, Header, Request, Response
from mangum.exceptions import LifespanFailure

from pagewarden.functions import app as app_module
from pagewarden.functions import lambda_handler
from tests.functions import house, lambda_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.support import databases

KEY = "sb_secret_of_this_test"
CONTEXT = lambda_events.Context()


@dataclass(slots=True)
class Small:
    """An app of our own, and what happened to it; its lifespan holds on to its event loop."""

    opened: int = 0
    closed: int = 0
    failures: int = 0
    called: list[tuple[str, Any]] = field(default_factory=list)
    loops: set[asyncio.AbstractEventLoop] = field(default_factory=set)

    def create_app(self) -> FastAPI:
        """Make the app that a cold start makes."""
        app = FastAPI(lifespan=self._lifespan)
        app.add_api_route("/functions/v1/documents/{rest:path}", _mirror, methods=["GET", "POST"])
        app.add_api_route("/functions/v1/{name}", self._function, methods=["POST"])
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")
        self.opened += 1
        self.loops.add(asyncio.get_running_loop())
        yield
        self.closed += 1

    async def _function(
        self, name: str, body: dict[str, Any], apikey: Annotated[str, Header()] = ""
    ) -> Response:
        self.loops.add(asyncio.get_running_loop())
        if apikey != KEY:
            return Response("who are you?", 401)
        self.called.append((name, body))
        if name == "retention":
            return Response('{"error": "STORE_AWAY"}', 503)
        return Response('{"completed": 2}', media_type="application/json")


async def _mirror(request: Request, response: Response) -> Any:
    """Tell what arrived; ask for bytes and there are bytes."""
    if "pdf" in request.query_params:
        return Response(b"%PDF\xff\x00", media_type="application/pdf")
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return {
        "method": request.method,
        "path": request.url.path,
        "base_url": str(request.base_url),
        "query": request.query_params.multi_items(),
        "cookies": request.cookies,
        "host": request.client.host if request.client else None,
        "body": base64.b64encode(await request.body()).decode(),
    }


@pytest.fixture
def small() -> Small:
    """Make an app that opens nothing."""
    return Small()


@pytest.fixture
def handler(small: Small) -> Iterator[lambda_handler.LambdaHandler]:
    """Make a handler of that app."""
    made = lambda_handler.make_handler(small.create_app, lambda: KEY)
    yield made
    made.close()


def test_a_request_of_an_http_api_is_answered(handler: lambda_handler.LambdaHandler) -> None:
    """Method, path, repeated query, cookies, who called, and a body in base64."""
    event = lambda_events.request(
        "POST",
        "/functions/v1/documents/a%20b",
        query="x=1&x=2&y=%26",
        cookies=["c=3", "d=4"],
        body=bytes(range(256)),
    )
    answer = handler(event, CONTEXT)
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, False)
    assert answer["headers"]["content-type"] == "application/json"
    assert [cookie.partition(";")[0] for cookie in answer["cookies"]] == ["a=1", "b=2"]
    assert json.loads(answer["body"]) == {
        "method": "POST",
        "path": "/functions/v1/documents/a b",
        "base_url": f"https://{lambda_events.HOST}/",
        "query": [["x", "1"], ["x", "2"], ["y", "&"]],
        "cookies": {"c": "3", "d": "4"},
        "host": "203.0.113.9",
        "body": base64.b64encode(bytes(range(256))).decode(),
    }


def test_an_answer_of_bytes_is_given_in_base64(handler: lambda_handler.LambdaHandler) -> None:
    """Nothing else passes through API Gateway unharmed."""
    answer = handler(
        lambda_events.request("GET", "/functions/v1/documents/1", query="pdf"), CONTEXT
    )
    assert answer["isBase64Encoded"] is True
    assert base64.b64decode(answer["body"]) == b"%PDF\xff\x00"


def test_services_are_opened_once_and_calls_share_a_loop(
    small: Small, handler: lambda_handler.LambdaHandler
) -> None:
    """Requests and schedules alike, since connections belong to the loop that opened them."""
    for _ in range(2):
        handler(lambda_events.request("GET", "/functions/v1/documents/1"), CONTEXT)
        handler(lambda_events.schedule_input("stale-monitor"), CONTEXT)
    assert (small.opened, small.closed, len(small.loops)) == (1, 0, 1)
    handler.close()
    assert small.closed == 1


def test_a_cold_start_that_failed_is_tried_again(
    small: Small, handler: lambda_handler.LambdaHandler
) -> None:
    """AWS keeps the process; the next call may find the database back."""
    small.failures = 1
    event = lambda_events.request("GET", "/functions/v1/documents/1")
    with pytest.raises(LifespanFailure, match="the database is away"):
        handler(event, CONTEXT)
    assert handler(event, CONTEXT)["statusCode"] == 200


@pytest.mark.parametrize("name", sorted(lambda_handler.SCHEDULED - {"retention"}))
@pytest.mark.parametrize(
    "event",
    [
        lambda_events.schedule_input,
        lambda_events.schedule,
        lambda name: lambda_events.schedule(f"pagewarden-{name}"),
        lambda_events.rule,
        lambda name: lambda_events.rule(f"production-{name}"),
        lambda name: lambda_events.rule("some-rule-8XYZ", {"function": name}),
    ],
    ids=["input", "schedule", "prefixed schedule", "rule", "prefixed rule", "rule with detail"],
)
def test_a_schedule_calls_the_function_it_names(
    small: Small, handler: lambda_handler.LambdaHandler, event: Callable[[str], Any], name: str
) -> None:
    """As a service, with the secret key; the answer is what AWS logs."""
    assert handler(event(name), CONTEXT) == {"completed": 2}
    ((called, _),) = small.called
    assert called == name


@pytest.mark.parametrize(("seconds", "budget"), [(300, 285), (900, 885), (5, 1)])
def test_a_worker_is_told_to_stop_before_lambda_ends_it(
    small: Small, handler: lambda_handler.LambdaHandler, seconds: float, budget: float
) -> None:
    """The time that is left, less what it takes to put things down."""
    context = lambda_events.Context(seconds)
    handler(lambda_events.schedule_input("ocr-worker"), context)
    handler(lambda_events.schedule_input("stale-monitor"), context)
    assert small.called == [("ocr-worker", {"budget_seconds": budget}), ("stale-monitor", {})]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"text": '{"lanes": ["pdf"]}'}, {"lanes": ["pdf"], "budget_seconds": 285}),
        ({"body": b'{"lanes": ["pdf"]}'}, {"lanes": ["pdf"], "budget_seconds": 285}),
        ({"text": '{"budget_seconds": 20}'}, {"budget_seconds": 20}),
        ({"text": '{"budget_seconds": 2000}'}, {"budget_seconds": 285}),
        ({}, {"budget_seconds": 285}),
    ],
)
@pytest.mark.parametrize("name", ["ocr-worker", "pdf-worker", "ocr-universal", "pdf-extract"])
def test_what_reads_is_told_too_when_it_is_called_over_http(
    small: Small,
    handler: lambda_handler.LambdaHandler,
    given: dict[str, Any],
    told: dict[str, Any],
    name: str,
) -> None:
    """A hint of pg_net does not know how long Lambda lets it work."""
    headers = {"apikey": KEY, "content-type": "application/json"}
    event = lambda_events.request("POST", f"/functions/v1/{name}", headers=headers, **given)
    assert handler(event, CONTEXT)["statusCode"] == 200
    assert small.called == [(name, told)]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"budget_seconds": "x"}'])
def test_a_broken_wish_is_left_to_the_function(
    small: Small, handler: lambda_handler.LambdaHandler, text: str
) -> None:
    """It has an answer for that, and the handler has none."""
    event = lambda_events.request("POST", "/functions/v1/pdf-worker", text=text)
    assert handler(event, CONTEXT)["statusCode"] in {401, 422}
    assert small.called == []


def test_a_schedule_fails_when_its_function_does(handler: lambda_handler.LambdaHandler) -> None:
    """Otherwise AWS would show a success."""
    with pytest.raises(lambda_handler.ScheduledCallFailed, match=r"retention returned 503: .*AWAY"):
        handler(lambda_events.schedule_input("retention"), CONTEXT)


@pytest.mark.parametrize(
    "event",
    [
        lambda_events.schedule_input("upload-to-dropbox"),
        lambda_events.schedule("hourly"),
        lambda_events.rule("not-ocr-worker-2"),
        {"source": "aws.scheduler"},
        {"source": "aws.scheduler", "detail": "not JSON"},
        {"source": "aws.scheduler", "detail": "[]"},
        {"source": "aws.scheduler", "detail": {"function": 7}},
        lambda_events.schedule_input("not-an-ocr-worker"),
        {"source": "aws.s3", "detail": {"function": "ocr-worker"}},
        {"Records": [{"eventSource": "aws:sqs", "body": "{}"}]},
        {"resource": "/", "path": "/", "httpMethod": "GET", "requestContext": {"stage": "v1"}},
        {},
    ],
)
def test_events_that_mean_nothing_to_us_are_errors(
    small: Small, handler: lambda_handler.LambdaHandler, event: dict[str, Any]
) -> None:
    """With a message that says what would; nothing is opened for them."""
    with pytest.raises(lambda_handler.UnknownEvent, match=r"EventBridge|schedule's input"):
        handler(event, CONTEXT)
    assert small.opened == 0


async def test_a_file_is_taken_in_on_lambda(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real app, from its cold start on: an upload, then its status and a schedule."""
    user = await database.create_user()
    for name, value in {
        "DATABASE_URL": database.url(),
        "HOME": str(tmp_path),
        "SUPABASE_KEY": "sb_secret_that_is_long_enough_for_a_test",
        "JWT_SECRET": house.SECRET,
    }.items():
        monkeypatch.setenv(f"PAGEWARDEN_{name}", value)
    headers = {"authorization": f"Bearer {house.token(user)}", "x-file-name": "scan.png"}
    upload = lambda_events.request(
        "POST", "/functions/v1/upload-to-dropbox", headers=headers, body=house.PNG
    )

    def invoke() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        with contextlib.closing(lambda_handler.make_handler(app_module.create_app)) as handler:
            accepted = handler(upload, CONTEXT)
            document = json.loads(accepted["body"])["document_id"]
            path = f"/functions/v1/documents/{document}"
            status = handler(lambda_events.request("GET", path, headers=headers), CONTEXT)
            return accepted, status, handler(lambda_events.rule("stale-monitor"), CONTEXT)

    # Lambda calls from a thread where no loop runs.
    with futures.ThreadPoolExecutor(1) as thread:
        accepted, status, swept = await asyncio.wrap_future(thread.submit(invoke))
    assert accepted["statusCode"] == 202, accepted
    assert "/functions/v1/documents/" in accepted["headers"]["location"]
    assert json.loads(status["body"])["ocr_status"] == "queued"
    assert swept == {"documents": 0}
    async with await psycopg.AsyncConnection.connect(database.url()) as connection:
        found = await connection.execute("select name, size_bytes from documents")
        assert await found.fetchall() == [("scan.png", len(house.PNG))]
