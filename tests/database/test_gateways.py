"""What PostgREST and the gateways in front of it are documented to answer, sent for real."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import database, errors
from pagewarden.database.table import Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = "sb_secret_of_a_test"
OLD_KEY = "header.claims.signature"
USER = database.User("6f0c1c9e-0000-4000-8000-00000000000a", "user.claims.signature")


@contextlib.asynccontextmanager
async def _gateway(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve one answer to everything and note what was asked; None never answers."""
    requests: list[bytes] = []
    handlers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}/", requests
        await asyncio.gather(*filter(None, handlers))


def _answer(status: int, body: object) -> bytes:
    content = body if isinstance(body, str) else json.dumps(body)
    head = f"HTTP/1.1 {status} Some Reason\r\nConnection: close\r\nContent-Length: {len(content)}"
    return f"{head}\r\n\r\n{content}".encode()


def _postgrest(code: str) -> dict[str, str | None]:
    return {"code": code, "message": "said PostgREST", "details": None, "hint": "try this"}


@pytest.mark.parametrize(
    ("status", "body", "expected", "sqlstate"),
    [
        (503, _postgrest("PGRST000"), errors.DatabaseUnavailable, "08006"),
        (503, _postgrest("PGRST001"), errors.DatabaseUnavailable, "08006"),
        (503, _postgrest("PGRST002"), errors.DatabaseUnavailable, "08006"),
        (504, _postgrest("PGRST003"), errors.DatabaseUnavailable, "53300"),
        (404, _postgrest("PGRST202"), errors.InvalidArgument, "42883"),
        (300, _postgrest("PGRST203"), errors.InvalidArgument, "42725"),
        (404, _postgrest("PGRST205"), errors.InvalidArgument, "42P01"),
        (401, _postgrest("PGRST301"), errors.Forbidden, "28000"),
        (401, _postgrest("PGRST303"), errors.Forbidden, "28000"),
        (401, _postgrest("42501"), errors.Forbidden, "42501"),
        (500, _postgrest("40001"), errors.Conflict, "40001"),
        (500, _postgrest("57014"), errors.DatabaseUnavailable, "57014"),
        (500, _postgrest("57P01"), errors.DatabaseUnavailable, "57P01"),
        (503, _postgrest("08006"), errors.DatabaseUnavailable, "08006"),
        (503, _postgrest("53100"), errors.DatabaseUnavailable, "53100"),
        (409, _postgrest("23505"), errors.InvalidArgument, "23505"),
        (400, _postgrest("P0001"), errors.DatabaseError, "P0001"),
        (503, {"message": "name resolution failed"}, errors.DatabaseUnavailable, None),
        (502, "<html>Bad Gateway</html>", errors.DatabaseUnavailable, None),
        (522, "error code: 522", errors.DatabaseUnavailable, None),
        (429, {"message": "API rate limit exceeded"}, errors.DatabaseUnavailable, None),
        (401, {"message": "Invalid API key"}, errors.Forbidden, None),
        (403, "", errors.Forbidden, None),
        (404, "<html>Not Found</html>", errors.DatabaseError, None),
        (500, ["unheard of"], errors.DatabaseError, None),
        (200, "<html>Welcome</html>", errors.DatabaseError, None),
    ],
)
async def test_answer_other_than_success_becomes_our_error(
    status: int, body: object, expected: type[errors.DatabaseError], sqlstate: str | None
) -> None:
    """The code decides where there is one, otherwise the status."""
    async with _gateway(_answer(status, body)) as (url, _), database.connect_http(url, KEY) as db:
        with pytest.raises(errors.DatabaseError) as caught:
            await db.rpc("ping")

    assert type(caught.value) is expected
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"220 mail ready\r\n"])
async def test_connection_that_breaks_off_is_an_outage(answer: bytes) -> None:
    """Whatever became of the call, the database could not tell."""
    async with _gateway(answer) as (url, requests), database.connect_http(url, KEY) as db:
        with pytest.raises(errors.DatabaseUnavailable):
            await db.select(Table[Any]("notes"))

    assert len(requests) == 1


async def test_gateway_that_never_answers_is_an_outage() -> None:
    """A call ends when its time is up."""
    async with (
        _gateway(None) as (url, _),
        database.connect_http(url, KEY, timeout=0.2) as db,
    ):
        with pytest.raises(errors.DatabaseUnavailable, match="ReadTimeout"):
            await db.rpc("ping")


async def test_no_content_is_none() -> None:
    """A void function answers 204, which is not an empty set."""
    async with (
        _gateway(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") as (url, _),
        database.connect_http(url, KEY) as db,
    ):
        assert await db.rpc("nothing") is None


@pytest.mark.parametrize(
    ("key", "user", "bearer"),
    [(KEY, None, None), (OLD_KEY, None, OLD_KEY), (KEY, USER, USER.jwt), (OLD_KEY, USER, USER.jwt)],
)
async def test_request_carries_the_credentials_supabase_wants(
    key: str, user: database.User | None, bearer: str | None
) -> None:
    """The key is always sent as such; as a token only a user's, or an old key, which is one."""
    async with (
        _gateway(_answer(200, [])) as (url, requests),
        database.connect_http(url, key) as service,
    ):
        await (service.acting_as(user) if user else service).select(Table[Any]("notes"))

    lines = requests[0].decode().lower().split("\r\n")
    assert lines[0].startswith("get /rest/v1/notes?")
    assert f"apikey: {key}".lower() in lines
    tokens = [line.removeprefix("authorization: bearer ") for line in lines if "bearer" in line]
    assert tokens == ([bearer.lower()] if bearer else [])
