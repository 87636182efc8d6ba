"""Each request has an id and a line, and what nobody expected is in the log and nowhere else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest
import structlog
from fastapi import Depends, FastAPI
from fastapi.responses import StreamingResponse

from pagewarden.functions.http import middleware
from tests.functions import house
from tests.support import lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.functions.house import House


def _app() -> FastAPI:
    app = FastAPI()
    app.add_middleware(middleware.RequestLogMiddleware)

    @app.get("/broken/{name}")
    async def broken(name: str) -> None:
        raise ValueError(f"nobody thought of {name}")

    @app.get("/{job_key}/{volume}", dependencies=[Depends(middleware.bind_units)])
    async def about(job_key: str, volume: str) -> None:
        structlog.get_logger().info("inside", path=f"{job_key}/{volume}")

    @app.get("/bound")
    async def bound() -> None:
        structlog.contextvars.bind_contextvars(user="ada", document="d")

    @app.get("/half")
    async def half() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"half"
            raise ValueError("nobody thought of this")

        return StreamingResponse(pieces())

    return app


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(_app()), base_url="http://test")


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("4bf92f3577b34da6-a.1_b", True),
        ("x" * 128, True),
        (None, False),
        ("", False),
        ("x" * 129, False),
        ("two words", False),
        ("-dash", False),
        ('{"a": 1}', False),
    ],
)
async def test_a_request_has_an_id_which_is_the_callers_if_that_is_one(
    given: str | None, *, is_taken: bool
) -> None:
    """It comes back in a header, and is on the line."""
    headers = {} if given is None else {middleware.REQUEST_ID_HEADER: given}
    async with _client() as client:
        with lines.capture_lines() as found:
            answer = await client.get("/nothing", headers=headers)
    (line,) = found
    used = answer.headers[middleware.REQUEST_ID_HEADER]
    assert line["request"] == used
    assert (used == given) is is_taken
    assert is_taken or re.fullmatch("[0-9a-f]{32}", used)


async def test_a_line_says_who_asked_for_which_document_and_no_more(functions: House) -> None:
    """Neither the token nor the query is in it."""
    user = await functions.factory.user()
    document = (await functions.upload(user, house.PNG)).json()["document_id"]
    with lines.capture_lines() as found:
        await functions.call(
            "GET", f"documents/{document}", user=user, params={"signature": "hidden"}
        )
        await functions.session.get("/sign-in", params={"next": "/hidden"})
        await functions.call("GET", "documents/hidden%0Aline", user=user)
        await functions.session.get(f"/jobs/{document}")
        # Asked for all the time, so told only to who wants to know.
        for path in ("/healthz", "/readyz", "/metrics", "/static/pagewarden.css"):
            await functions.session.get(path)
    first, second, third, job, *others = found
    assert (job["job"], job["route"], job["status"]) == (document, "/jobs/{job_id}", 401)
    assert "document" not in job
    assert (third["status"], "document" in third) == (400, False)
    assert [line["log_level"] for line in others] == ["debug"] * 4
    assert first.pop("seconds") > 0
    assert first.pop("request")
    assert first == {
        "event": "request", "log_level": "info", "method": "GET", "status": 200,
        "route": "/functions/v1/documents/{document_id}", "document": document,
        "user": str(user),
    }  # fmt: skip
    assert (second["route"], second["status"]) == ("/sign-in", 200)
    assert not {"user", "document"} & set(second)
    assert house.token(user).split(".")[1] not in str(found)
    assert "hidden" not in str(found)


async def test_what_nobody_expected_is_in_the_log_with_the_id_that_the_caller_gets() -> None:
    """And the caller gets nothing else."""
    async with _client() as client:
        with lines.capture_lines() as found:
            answer = await client.get("/broken/secrets")
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    assert answer.headers[middleware.REQUEST_ID_HEADER] in answer.json()["message"]
    assert "secrets" not in answer.text
    failed, line = found
    assert (failed["event"], failed["error"], failed["exc_info"]) == (
        "request_failed", "ValueError", True,
    )  # fmt: skip
    assert (line["status"], line["route"], line["log_level"]) == (500, "/broken/{name}", "warning")
    assert {entry["request"] for entry in found} == {answer.headers[middleware.REQUEST_ID_HEADER]}


async def test_what_a_request_binds_is_on_its_line_and_on_no_other() -> None:
    """Also where requests are answered one after the other by one task, as on Lambda."""
    async with _client() as client:
        with lines.capture_lines() as found:
            await client.get("/bound")
            await client.get("/nothing")
    assert [(line.get("user"), line.get("document")) for line in found] == [
        ("ada", "d"), (None, None),
    ]  # fmt: skip
    assert structlog.contextvars.get_contextvars() == {}


async def test_what_a_request_is_about_is_on_all_of_its_lines() -> None:
    """Other text in a path is on none."""
    async with _client() as client:
        with lines.capture_lines() as found:
            await client.get("/run-7/W1-I1")
            await client.get("/run-7/two words")
    assert [(line["event"], line["job"], line.get("volume")) for line in found] == [
        ("inside", "run-7", "W1-I1"), ("request", "run-7", "W1-I1"),
        ("inside", "run-7", None), ("request", "run-7", None),
    ]  # fmt: skip


async def test_half_an_answer_does_not_look_like_a_whole_one() -> None:
    """Whoever reads it notices that it is broken off."""
    async with _client() as client:
        with lines.capture_lines() as found, pytest.raises(ValueError, match="nobody"):
            await client.get("/half")
    assert [line["event"] for line in found] == ["request_failed", "request"]
