"""Guessers, bodies that make no sense, and outages."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import structlog
from fastapi import FastAPI
from supabase_auth import errors as auth_errors

import supabase
from pagewarden import errors
from pagewarden.auth.embedded import routes, service, sessions
from pagewarden.web import request_body
from tests.functions.sign_in import houses
from tests.support.serving import serve_app

if TYPE_CHECKING:
    import httpx


async def test_guessing_is_stopped_and_forgotten_after_a_while(house: houses.House) -> None:
    """The eleventh try is not looked at, right or wrong, until a quarter of an hour has passed."""
    email = await house.somebody()
    async with houses.http() as plain:

        async def attempt(password: str) -> httpx.Response:
            return await plain.post(
                f"{house.url}/auth/v1/token?grant_type=password",
                json={"email": email, "password": password},
            )

        statuses = [(await attempt("wrong")).status_code for _ in range(10)]
        refused = await attempt(houses.PASSWORD)
        house.ahead += dt.timedelta(minutes=15)
        later = await attempt(houses.PASSWORD)

    assert statuses == [400] * 10
    assert (refused.status_code, refused.json()["error_code"]) == (429, "over_request_rate_limit")
    assert 800 < int(refused.headers["retry-after"]) <= 900
    assert later.status_code == 200


async def test_guesses_at_once_are_counted_one_by_one(house: houses.House) -> None:
    """Being quick does not help."""
    email = await house.somebody()

    async def attempt() -> int:
        try:
            await house.service.sign_in(email, "wrong", houses.HOME)
        except errors.SignInRejected as exc:
            return exc.status
        return 200

    statuses = await asyncio.gather(*(attempt() for _ in range(25)))

    assert sorted(statuses) == [400] * 10 + [429] * 15


async def _fail(house: houses.House, email: str, address: str, times: int) -> set[int]:
    statuses = set()
    for _ in range(times):
        with pytest.raises(errors.SignInRejected) as caught:
            await house.service.sign_in(email, "wrong", sessions.RequestOrigin(address, ""))
        statuses.add(caught.value.status)
    return statuses


async def test_stranger_does_not_lock_the_owner_out(house: houses.House) -> None:
    """From another address the owner still gets in; a success forgets the owner's own slips."""
    email = await house.somebody()
    await _fail(house, email, "198.51.100.7", 10)

    for _ in range(3):
        assert await _fail(house, email, houses.HOME.address, 9) == {400}
        assert await house.service.sign_in(email, houses.PASSWORD, houses.HOME)


async def test_one_address_cannot_try_everybody(house: houses.House) -> None:
    """After fifty failures the address is refused, of version 6 with all its neighbours."""
    await _fail(house, "nobody@example.org", "2001:db8::1", 10)
    for number in range(40):
        await _fail(house, f"{number}@example.org", f"2001:db8::{number + 2:x}", 1)

    assert await _fail(house, "one.more@example.org", "2001:db8::ffff", 1) == {429}
    assert await _fail(house, "one.more@example.org", "2001:db8:1::1", 1) == {400}


async def test_many_addresses_cannot_try_one_account(house: houses.House) -> None:
    """After a hundred failures the account is refused to everybody for the while."""
    email = await house.somebody()
    for number in range(10):
        await _fail(house, email, f"203.0.113.{number}", 10)

    assert await _fail(house, email, houses.HOME.address, 1) == {429}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'"text"', 400),
        (b'{"email": 5, "password": {}}', 400),
        (b'{"email": "a@b", "password": "\\u0000"}', 400),
        (b'{"email": "a@b", "password": "\\ud800"}', 400),
        (b'{"email": "a@b", "x": ["\\ud800"]}', 400),
        (b'{"email": "a@b", "password": NaN}', 400),
        (b"[" * 10_000, 400),
        (b"\xff\xfe", 400),
        (b'{"email": "a\\n@b", "password": "x"}', 400),
        (b'{"email": "' + b"a" * 9000 + b'@b", "password": "x"}', 400),
        (b'{"email": "' + b"a" * 17_000 + b'"}', 413),
    ],
    ids=range(15),
)
async def test_body_that_makes_no_sense_is_refused(
    house: houses.House, body: bytes, status: int
) -> None:
    """Always in the shape that clients know, never as an error of ours."""
    async with houses.http() as plain:
        answer = await plain.post(
            f"{house.url}/auth/v1/token?grant_type=password",
            content=body,
            headers={"Content-Type": "application/json"},
        )

    assert answer.status_code == status
    assert answer.json()["code"] == status
    assert {"code", "error_code", "msg"} <= answer.json().keys()


@pytest.mark.parametrize("query", ["", "?grant_type=", "?grant_type=pkce", "?grant_type=id_token"])
async def test_other_ways_in_are_refused(house: houses.House, query: str) -> None:
    """There is no way in but a password and a refresh token."""
    async with houses.http() as plain:
        answer = await plain.post(f"{house.url}/auth/v1/token{query}", json={})

    assert (answer.status_code, answer.json()["error_code"]) == (400, "validation_failed")


@pytest.mark.parametrize(("piece", "status"), [(b"", 408), (b" " * 1000, 413)])
async def test_body_that_never_ends_is_given_up(
    house: houses.House, monkeypatch: pytest.MonkeyPatch, piece: bytes, status: int
) -> None:
    """Neither one that stops half-way nor an endless one holds the server."""
    monkeypatch.setattr(request_body, "SECONDS", 0.3)
    where = urlsplit(house.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(
        b"POST /auth/v1/token?grant_type=password HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{"
    )
    writer.writelines([piece] * 40)
    async with asyncio.timeout(10):
        line = await reader.readline()
    writer.close()

    assert line.split()[1] == str(status).encode()


async def test_errors_quote_no_password(house: houses.House) -> None:
    """Neither an answer nor a line of the log has it."""
    email = await house.somebody()
    with structlog.testing.capture_logs() as lines:
        async with houses.http() as plain:
            answers = [
                await plain.post(f"{house.url}/auth/v1/token?grant_type=password", json=body)
                for body in (
                    {"email": email, "password": "s3cret-wrong-one"},
                    {"email": [], "password": "s3cret-wrong-one"},
                    {"email": email, "password": ["s3cret-wrong-one"]},
                )
            ]

    assert [answer.status_code for answer in answers] == [400] * 3
    assert lines
    assert "s3cret" not in json.dumps([lines, [answer.text for answer in answers]])


async def test_answers_with_tokens_are_not_kept_on_the_way(house: houses.House) -> None:
    """No cache may hand them to somebody else."""
    body = {"email": await house.somebody(), "password": houses.PASSWORD}
    async with houses.http() as plain:
        answer = await plain.post(f"{house.url}/auth/v1/token?grant_type=password", json=body)

    assert answer.headers["cache-control"] == "no-store"


async def test_database_that_is_away_is_an_outage(house: houses.House) -> None:
    """The client is told to come back, not that the password is wrong."""
    away = service.AuthService(
        "postgresql://x@127.0.0.1:1/x", houses.KEYS, site_url=houses.SITE, hasher=houses.CHEAP
    )
    app = FastAPI()
    app.include_router(routes.make_router(away))
    async with serve_app(app) as url, houses.http() as plain:
        health = await plain.get(f"{url}/auth/v1/health")
        client = await supabase.acreate_client(
            url, "x", supabase.AsyncClientOptions(httpx_client=plain)
        )
        with pytest.raises(auth_errors.AuthRetryableError) as caught:
            await houses.sign_in(client, "ada@example.org")
    await away.aclose()

    assert caught.value.status == health.status_code == 503
    assert int(health.headers["retry-after"]) > 0
    assert house.url


async def test_openapi_documents_every_answer(house: houses.House) -> None:
    """Each refusal has its shape there, and the routes that want a token say so."""
    async with houses.http() as plain:
        document = (await plain.get(f"{house.url}/openapi.json")).json()

    operations = {
        (method, path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert len(operations) == 11
    for operation in operations.values():
        assert {"400", "408", "413", "422", "503"} <= operation["responses"].keys()
        assert "HTTPValidationError" not in json.dumps(operation)
        assert operation["description"]
    guarded = {path for (_, path), operation in operations.items() if "security" in operation}
    assert guarded == {"/auth/v1/user", "/auth/v1/logout"}
