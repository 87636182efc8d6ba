"""Signing in at the embedded stack, with the client of Supabase over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
import ssl
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import argon2
import httpx
import jwt
import psycopg
import pytest
import pytest_asyncio
import structlog
from fastapi import FastAPI
from supabase_auth import errors as auth_errors

import supabase
from pagewarden import database as gateways
from pagewarden import errors, keys, tokens
from pagewarden.local import bootstrap, cluster
from pagewarden.local.sign_in import passwords, route, routes, service, sessions
from tests.support import databases
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from supabase_auth import Session

    from pagewarden.local import server

pytestmark = pytest.mark.asyncio(loop_scope="module")

SITE = "http://pagewarden.example.org"
PASSWORD = "correct horse battery staple"
SECRET = "the secret of this test, which is long enough"
KEYS = keys.Keys("sb_secret_of_a_test", "sb_publishable_of_a_test", SECRET)
HOME = sessions.Origin("192.0.2.1", "test")
# Right for tests only: the usual costs would take most of their time.
CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


# Making one for each client would take longer than what they do.
TLS = ssl.create_default_context()


def _http(url: str = "") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, verify=TLS)


@dataclass
class House:
    """A running sign-in: its address, its clock, and the links it sent."""

    database: databases.Database
    url: str = ""
    ahead: dt.timedelta = dt.timedelta(0)
    sent: list[tuple[str, str]] = field(default_factory=list)
    service: service.Service = field(init=False)

    def now(self) -> dt.datetime:
        """Give the time of this house."""
        return dt.datetime.now(dt.UTC) + self.ahead

    async def deliver(self, email: str, link: str) -> None:
        """Keep a link instead of sending it."""
        self.sent.append((email, link))

    async def somebody(self) -> str:
        """Add somebody with the password of this test, and give the address."""
        email = f"{uuid.uuid4().hex}@example.org"
        await self.service.users.add(email, PASSWORD, is_admin=False)
        return email

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[supabase.AsyncClient]:
        """Make a client as programs of people have it."""
        async with _http() as session:
            options = supabase.AsyncClientOptions(httpx_client=session, auto_refresh_token=False)
            yield await supabase.acreate_client(self.url, KEYS.publishable_key or "", options)

    @contextlib.asynccontextmanager
    async def signed_in(self, email: str = "") -> AsyncIterator[supabase.AsyncClient]:
        """Make a client of somebody who is signed in."""
        async with self.client() as client:
            await _sign_in(client, email or await self.somebody())
            yield client

    async def row(self, query: str, *params: object) -> Any:
        """Look into the database."""
        conn = await self.database.connect()
        return await (await conn.execute(query.encode(), params)).fetchone()


async def _sign_in(client: supabase.AsyncClient, email: str, password: str = PASSWORD) -> Session:
    answer = await client.auth.sign_in_with_password({"email": email, "password": password})
    assert answer.session is not None
    return answer.session


async def _session(client: supabase.AsyncClient) -> Session:
    session = await client.auth.get_session()
    assert session is not None
    return session


async def _refresh(client: supabase.AsyncClient, token: str) -> Session:
    answer = await client.auth.refresh_session(token)
    assert answer.session is not None
    return answer.session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(local_server: server.LocalServer, migrated_template: str) -> AsyncIterator[House]:
    """Run a sign-in for all tests of this module."""
    async with databases.cloned(local_server, migrated_template) as database:
        house = House(database)
        house.service = service.Service(
            database.url(), KEYS, site_url=SITE, deliver=house.deliver, now=house.now, hasher=CHEAP
        )
        app = FastAPI()
        app.include_router(routes.router(house.service))
        async with serving(app) as house.url:
            yield house
        await house.service.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def house(running: House) -> House:
    """Give a test the sign-in as new: the right time, and nobody has failed."""
    running.ahead = dt.timedelta(0)
    running.sent.clear()
    conn = await running.database.connect()
    await conn.execute("delete from auth.failed_sign_ins")
    return running


@pytest_asyncio.fixture(loop_scope="module")
async def empty_house(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[House]:
    """Give a test a sign-in where nobody is yet."""
    async with databases.cloned(local_server, migrated_template) as database:
        house = House(database)
        house.service = service.Service(database.url(), KEYS, site_url=SITE, hasher=CHEAP)
        yield house
        await house.service.aclose()


async def test_password_lets_its_owner_in(house: House) -> None:
    """The client of Supabase has a session afterwards, and knows who it is."""
    email = await house.somebody()
    async with house.client() as client:
        session = await _sign_in(client, f" {email.upper()}")
        found = await client.auth.get_user()
        claims = await client.auth.get_claims()

    caller = await tokens.Verifier(KEYS, issuer=f"{SITE}/auth/v1").verify(session.access_token)
    assert found is not None
    assert claims is not None
    assert (session.user.email, found.user.email, caller.email) == (email, email, email)
    assert session.user.id == found.user.id == caller.user_id == claims["claims"]["sub"]
    assert (session.expires_in, session.token_type) == (3600, "bearer")
    assert caller.role == "authenticated"
    assert found.user.last_sign_in_at is not None
    assert "encrypted" not in found.model_dump_json()


async def test_database_sees_who_signed_in(house: House) -> None:
    """Row-level security asks for the id in the token, and the claims are all there."""
    async with (
        house.signed_in() as ada,
        house.signed_in() as eve,
        await gateways.connect_direct(house.database.url("authenticator")) as link,
    ):
        verifier = tokens.Verifier(KEYS)
        caller, other = [
            await verifier.verify((await _session(client)).access_token) for client in (ada, eve)
        ]
        case = await link.acting_as(caller.user()).rpc("create_case", p_name="Letters")
        seen = await link.acting_as(caller.user()).select("cases")
        hidden = await link.acting_as(other.user()).select("cases")

    assert [(row["id"], row["user_id"]) for row in seen] == [(case, caller.user_id)]
    assert hidden == []


async def test_everybody_who_is_not_let_in_is_told_the_same(
    house: House,
) -> None:
    """Wrong password, unknown address, banned, without a password: nobody learns which."""
    email, banned = await house.somebody(), await house.somebody()
    conn = await house.database.connect()
    await conn.execute(
        "update auth.users set banned_until = now() + interval '1 day' where email = %s", (banned,)
    )
    without = f"{uuid.uuid4().hex}@example.org"
    await house.database.create_user(without)
    said = set()
    async with house.client() as client:
        for address, password in (
            (email, "something else"),
            (email, PASSWORD + " "),
            ("nobody@example.org", PASSWORD),
            ("no address", PASSWORD),
            (banned, PASSWORD),
            (without, PASSWORD),
        ):
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await _sign_in(client, address, password)
            said.add((caught.value.status, caught.value.code, caught.value.message))

    assert said == {(400, "invalid_credentials", "Invalid login credentials")}


async def test_unknown_address_takes_as_long_as_a_wrong_password(house: House) -> None:
    """A password is compared in both cases, with the same costs."""
    compared = []

    class Watched(argon2.PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002
            compared.append(argon2.extract_parameters(str(hash)))
            return super().verify(hash, password)

    watched = Watched(time_cost=1, memory_cost=16, parallelism=1)
    signing = service.Service(house.database.url(), KEYS, site_url=SITE, hasher=watched)
    email = f"{uuid.uuid4().hex}@example.org"
    await signing.users.add(email, PASSWORD, is_admin=False)
    for address in (email, "nobody@example.org"):
        with pytest.raises(errors.SignInRefused):
            await signing.sign_in(address, "something else", HOME)
    await signing.aclose()

    assert len(compared) == 2
    assert compared[0] == compared[1]


@pytest.mark.parametrize("address", ["", "somewhere", "fe80::1%eth0", "::ffff:192.0.2.1"])
async def test_wherever_somebody_calls_from_the_password_counts(house: House, address: str) -> None:
    """An address that says nothing, or has a zone, is no obstacle."""
    origin = sessions.Origin(address, "x" * 10_000)

    assert await house.service.sign_in(await house.somebody(), PASSWORD, origin)


async def test_refresh_token_is_good_once(house: House) -> None:
    """Each refresh gives another token; the one before is void once the moment has passed."""
    async with house.signed_in() as client:
        first = await _session(client)
        second = await _refresh(client, first.refresh_token)
        third = await _refresh(client, second.refresh_token)

    assert len({first.refresh_token, second.refresh_token, third.refresh_token}) == 3
    assert first.user.id == third.user.id


async def test_used_refresh_token_ends_the_session(house: House) -> None:
    """One of the two who had it is a thief, so neither may go on."""
    async with house.signed_in() as client:
        stolen = (await _session(client)).refresh_token
        current = await _refresh(client, stolen)
        house.ahead += sessions.REUSE_INTERVAL
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await _refresh(client, stolen)
        with pytest.raises(auth_errors.AuthApiError) as after:
            await _refresh(client, current.refresh_token)
        with pytest.raises(auth_errors.AuthApiError) as access:
            await client.auth.get_user(current.access_token)

    assert (caught.value.status, str(caught.value.code)) == (400, "refresh_token_already_used")
    assert (after.value.status, str(after.value.code)) == (400, "refresh_token_not_found")
    assert access.value.code == "session_not_found"


async def test_token_before_the_last_one_ends_the_session_at_once(house: House) -> None:
    """The moment of grace is for the answer that got lost, not for older tokens."""
    async with house.signed_in() as client:
        first = await _session(client)
        second = await _refresh(client, first.refresh_token)
        await _refresh(client, second.refresh_token)
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await _refresh(client, first.refresh_token)

    assert str(caught.value.code) == "refresh_token_already_used"


async def test_refreshing_many_times_at_once_gives_one_token(house: House) -> None:
    """Tabs of a browser race; all of them go on."""
    async with house.signed_in() as client:
        token = (await _session(client)).refresh_token
        body = {"refresh_token": token}
        url = f"{house.url}/auth/v1/token?grant_type=refresh_token"
        async with _http() as plain:
            answers = await asyncio.gather(*(plain.post(url, json=body) for _ in range(12)))

        assert {answer.status_code for answer in answers} == {200}
        (following,) = {answer.json()["refresh_token"] for answer in answers}
        assert (await _refresh(client, following)).user.id


@pytest.mark.parametrize("token", ["", "x", "ü", "A" * 64, "A" * 63 + "!", "A" * 10_000])
async def test_made_up_refresh_token_is_refused(house: House, token: str) -> None:
    """It is signed, so nothing is looked up for it."""
    async with _http() as plain:
        answer = await plain.post(
            f"{house.url}/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token}
        )

    assert (answer.status_code, answer.json()["error_code"]) == (400, "refresh_token_not_found")


async def test_session_nobody_uses_is_over_after_a_month(house: House) -> None:
    """Its refresh token is void then."""
    async with house.signed_in() as client:
        token = (await _session(client)).refresh_token
        house.ahead += sessions.IDLE_TIME
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await _refresh(client, token)

    assert str(caught.value.code) == "session_expired"


async def test_banned_and_removed_people_do_not_stay_in(house: House) -> None:
    """Their refresh tokens are void at once."""
    for statement in (
        "update auth.users set banned_until = now() + interval '1 day' where email = %s",
        "delete from auth.users where email = %s",
    ):
        email = await house.somebody()
        async with house.signed_in(email) as client:
            token = (await _session(client)).refresh_token
            conn = await house.database.connect()
            await conn.execute(statement.encode(), (email,))
            with pytest.raises(auth_errors.AuthApiError):
                await _refresh(client, token)


@pytest.mark.parametrize(("scope", "ended"), [("local", "0"), ("others", "12"), ("global", "012")])
async def test_signing_out_ends_sessions(house: House, scope: Any, ended: str) -> None:
    """Here, everywhere else, or everywhere; what ended cannot be refreshed, what did not can."""
    email = await house.somebody()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.signed_in(email)) for _ in range(3)]
        open_sessions = [await _session(client) for client in clients]
        await clients[0].auth.sign_out({"scope": scope})

        for number, session in enumerate(open_sessions):
            if str(number) in ended:
                with pytest.raises(auth_errors.AuthApiError) as refreshed:
                    await _refresh(clients[number], session.refresh_token)
                with pytest.raises(auth_errors.AuthApiError) as asked:
                    await clients[number].auth.get_user(session.access_token)
                assert str(refreshed.value.code) == "refresh_token_not_found"
                assert (asked.value.status, asked.value.code) == (403, "session_not_found")
            else:
                assert await _refresh(clients[number], session.refresh_token)


async def test_expired_access_token_is_refused(house: House) -> None:
    """The client is told that the token, not the person, is the trouble."""
    house.ahead -= dt.timedelta(hours=2)
    email = await house.somebody()
    async with house.client() as client:
        answer = await client.auth.sign_in_with_password({"email": email, "password": PASSWORD})
        assert answer.session is not None
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.get_user(answer.session.access_token)

    assert (caught.value.status, caught.value.code) == (403, "bad_jwt")
    assert "expired" in caught.value.message


async def test_forged_access_tokens_are_refused(house: House) -> None:
    """Another secret, no algorithm, no session, somebody else's session, a key: all of them."""
    async with house.signed_in() as client, house.signed_in() as other:
        claims = _claims(await _session(client))
        theirs = _claims(await _session(other))
        without = {name: value for name, value in claims.items() if name != "session_id"}
        forged = [
            jwt.encode(claims, "another secret, which is long enough, too", "HS256"),
            jwt.encode(claims, "", "none"),
            jwt.encode(claims, SECRET * 2, "HS512"),
            jwt.encode(without, SECRET, "HS256"),
            jwt.encode(claims | {"session_id": 5}, SECRET, "HS256"),
            jwt.encode(claims | {"session_id": theirs["session_id"]}, SECRET, "HS256"),
            jwt.encode(claims | {"sub": theirs["sub"]}, SECRET, "HS256"),
            jwt.encode({"role": "service_role", "exp": claims["exp"]}, SECRET, "HS256"),
            KEYS.secret_key,
            KEYS.publishable_key or "",
        ]
        for token in forged:
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await client.auth.get_user(token)
            assert caught.value.status == 403

        assert await client.auth.get_user((await _session(client)).access_token)


def _claims(session: Session) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        session.access_token, SECRET, ["HS256"], audience="authenticated"
    )
    return claims


async def test_request_without_a_token_is_refused(house: House) -> None:
    """401, with the header that says what is missing."""
    async with _http(f"{house.url}/auth/v1") as plain:
        for answer in (
            await plain.get("/user"),
            await plain.put("/user", json={}),
            await plain.post("/logout"),
            await plain.get("/user", headers={"Authorization": "Basic eDp5"}),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (401, "no_authorization")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_new_password_signs_out_everywhere_else(house: House) -> None:
    """Whoever knew the old one is out; the session that changed it goes on."""
    email, changed = await house.somebody(), "another horse, another staple"
    async with house.signed_in(email) as client, house.signed_in(email) as other:
        theirs = await _session(other)
        await client.auth.update_user({"password": changed, "current_password": PASSWORD})

        assert await client.auth.refresh_session()
        with pytest.raises(auth_errors.AuthApiError):
            await _refresh(other, theirs.refresh_token)
        with pytest.raises(auth_errors.AuthApiError):
            await _sign_in(other, email, PASSWORD)
        assert await _sign_in(other, email, changed)


async def test_password_that_will_not_do_is_refused(house: House) -> None:
    """Too short, too long, the old one again, or without knowing the old one; nothing changes."""
    email = await house.somebody()
    async with house.signed_in(email) as client:
        for weak in ("", "x" * 11, "x" * 1001):
            with pytest.raises(auth_errors.AuthWeakPasswordError) as caught:
                await client.auth.update_user({"password": weak})
            assert (caught.value.status, caught.value.reasons) == (422, ["length"])
        with pytest.raises(auth_errors.AuthApiError) as same:
            await client.auth.update_user({"password": PASSWORD})
        with pytest.raises(auth_errors.AuthApiError) as wrong:
            await client.auth.update_user({"password": "x" * 12, "current_password": "wrong"})
        assert (same.value.code, wrong.value.code) == ("same_password", "invalid_credentials")

        assert await _sign_in(client, email)


async def test_metadata_is_the_persons_own_and_stays_small(house: House) -> None:
    """Keys are added and taken away one by one; what makes tokens too long is refused."""
    async with house.signed_in() as client:
        await client.auth.update_user({"data": {"name": "Ada", "colour": "green"}})
        answer = await client.auth.update_user({"data": {"colour": None, "size": 5}})
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.update_user({"data": {"much": "x" * 5000}})
        session = (await client.auth.refresh_session()).session

    assert answer.user.user_metadata == {"name": "Ada", "size": 5}
    assert caught.value.status == 422
    assert session is not None
    assert _claims(session)["user_metadata"] == {"name": "Ada", "size": 5}


async def test_person_cannot_change_rights_or_address(house: House) -> None:
    """Metadata of the application and roles are not theirs; an address is changed by operators."""
    async with house.signed_in() as client:
        changed = await client.auth.update_user({"app_metadata": {"admin": True}, "role": "x"})  # type: ignore[typeddict-unknown-key]  # what a forger would send
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.update_user({"email": "eve@example.org"})

    assert (changed.user.app_metadata["provider"], changed.user.role) == ("email", "authenticated")
    assert "admin" not in changed.user.app_metadata
    assert caught.value.status == 422


async def _recovered(house: House, email: str) -> str:
    """Ask for a link as a person does, and give its token."""
    async with house.client() as client:
        await client.auth.reset_password_for_email(email)
        # The link is sent after the answer, and before the next one on the same connection.
        with pytest.raises(auth_errors.AuthApiError):
            await client.auth.get_user("no token")
    ((address, link),) = house.sent
    assert address == email
    house.sent.clear()
    return parse_qs(urlsplit(link).query)["token"][0]


async def test_recovery_link_lets_in_once_to_choose_a_password(house: House) -> None:
    """The client's own calls do it all."""
    email, chosen = await house.somebody(), "chosen after the recovery"
    token = await _recovered(house, email)
    async with house.client() as client:
        answer = await client.auth.verify_otp({"token_hash": token, "type": "recovery"})
        assert answer.session is not None
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.verify_otp({"token_hash": token, "type": "recovery"})
        await client.auth.update_user({"password": chosen})

        assert (caught.value.status, caught.value.code) == (403, "otp_expired")
        assert await _sign_in(client, email, chosen)


async def test_recovery_token_is_bound_to_its_address_and_hour(house: House) -> None:
    """Another address, or too late, and it is void."""
    email, other = await house.somebody(), await house.somebody()
    token = await _recovered(house, email)
    async with house.client() as client:
        for address, ahead in ((other, dt.timedelta(0)), (email, dt.timedelta(hours=1))):
            house.ahead = ahead
            with pytest.raises(auth_errors.AuthApiError):
                await client.auth.verify_otp({"email": address, "token": token, "type": "recovery"})
        house.ahead = dt.timedelta(minutes=59)
        answer = await client.auth.verify_otp(
            {"email": email.upper(), "token": token, "type": "recovery"}
        )

    assert answer.session is not None


async def test_recovery_does_not_tell_who_exists(house: House) -> None:
    """The answer is the same for everybody; one link a minute is sent, to people we know."""
    email = await house.somebody()
    said, sent = set(), []
    async with _http(f"{house.url}/auth/v1") as plain:
        for address in (email, "nobody@example.org", "no address", email, None, email):
            if address is None:
                house.ahead += service.RECOVERY_PAUSE
                continue
            answer = await plain.post("/recover", json={"email": address})
            # The link is sent after the answer, and before the next one on the same connection.
            await plain.get("/settings")
            said.add((answer.status_code, answer.text))
            sent.append(len(house.sent))

    assert said == {(200, "{}")}
    assert sent == [1, 1, 1, 1, 2]
    assert {address for address, _ in house.sent} == {email}


async def test_recovery_is_asked_for_a_limited_number_of_times(house: House) -> None:
    """One address cannot make us send for ever."""
    async with _http() as plain:
        statuses = [
            (await plain.post(f"{house.url}/auth/v1/recover", json={"email": "x"})).status_code
            for _ in range(21)
        ]

    assert statuses == [200] * 20 + [429]


async def test_database_keeps_no_recovery_token(house: House) -> None:
    """Whoever reads the database cannot sign in with what is there."""
    email = await house.somebody()
    token = await _recovered(house, email)
    (stored,) = await house.row("select recovery_token from auth.users where email = %s", email)

    assert stored != token
    async with house.client() as client:
        with pytest.raises(auth_errors.AuthApiError):
            await client.auth.verify_otp({"token_hash": stored, "type": "recovery"})


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("", SITE),
        (f"{SITE}/welcome?x=1#y", f"{SITE}/welcome?x=1"),
        ("https://evil.example.org", SITE),
        (f"{SITE}.evil.example.org/", SITE),
        (f"{SITE}@evil.example.org/", SITE),
        ("//evil.example.org", SITE),
        (f"{SITE}\\@evil.example.org/", SITE),
        ("javascript:alert(1)", SITE),
        ("http://[", SITE),
    ],
)
async def test_link_leads_to_this_site_and_no_other(house: House, asked: str, led: str) -> None:
    """The session stands behind the #, where only the browser sees it."""
    token = await _recovered(house, await house.somebody())
    query = {"token": token, "type": "recovery", "redirect_to": asked}
    async with _http() as plain:
        first = await plain.get(f"{house.url}/auth/v1/verify", params=query)
        second = await plain.get(f"{house.url}/auth/v1/verify", params=query)

    where, _, found = first.headers["location"].partition("#")
    assert (first.status_code, where) == (303, led)
    assert parse_qs(found)["type"] == ["recovery"]
    caller = await tokens.Verifier(KEYS).verify(parse_qs(found)["access_token"][0])
    assert caller.role == "authenticated"
    assert "error_code=otp_expired" in second.headers["location"]
    assert "access_token" not in second.headers["location"]


async def test_strangers_cannot_sign_up(house: House) -> None:
    """Neither with an address nor without; the client is told why."""
    async with house.client() as client:
        for attempt in (
            client.auth.sign_up({"email": "eve@example.org", "password": PASSWORD}),
            client.auth.sign_in_anonymously(),
        ):
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await attempt
            assert (caught.value.status, caught.value.code) == (422, "signup_disabled")

    assert await house.service.users.find("eve@example.org") is None


async def test_guessing_is_stopped_and_forgotten_after_a_while(house: House) -> None:
    """The eleventh try is not looked at, right or wrong, until a quarter of an hour has passed."""
    email = await house.somebody()
    async with _http() as plain:

        async def attempt(password: str) -> httpx.Response:
            return await plain.post(
                f"{house.url}/auth/v1/token?grant_type=password",
                json={"email": email, "password": password},
            )

        statuses = [(await attempt("wrong")).status_code for _ in range(10)]
        refused = await attempt(PASSWORD)
        house.ahead += dt.timedelta(minutes=15)
        later = await attempt(PASSWORD)

    assert statuses == [400] * 10
    assert (refused.status_code, refused.json()["error_code"]) == (429, "over_request_rate_limit")
    assert 800 < int(refused.headers["retry-after"]) <= 900
    assert later.status_code == 200


async def test_guesses_at_once_are_counted_one_by_one(house: House) -> None:
    """Being quick does not help."""
    email = await house.somebody()

    async def attempt() -> int:
        try:
            await house.service.sign_in(email, "wrong", HOME)
        except errors.SignInRefused as exc:
            return exc.status
        return 200

    statuses = await asyncio.gather(*(attempt() for _ in range(25)))

    assert sorted(statuses) == [400] * 10 + [429] * 15


async def _fail(house: House, email: str, address: str, times: int) -> set[int]:
    statuses = set()
    for _ in range(times):
        with pytest.raises(errors.SignInRefused) as caught:
            await house.service.sign_in(email, "wrong", sessions.Origin(address, ""))
        statuses.add(caught.value.status)
    return statuses


async def test_stranger_does_not_lock_the_owner_out(house: House) -> None:
    """From another address the owner still gets in; a success forgets the owner's own slips."""
    email = await house.somebody()
    await _fail(house, email, "198.51.100.7", 10)

    for _ in range(3):
        assert await _fail(house, email, HOME.address, 9) == {400}
        assert await house.service.sign_in(email, PASSWORD, HOME)


async def test_one_address_cannot_try_everybody(house: House) -> None:
    """After fifty failures the address is refused, of version 6 with all its neighbours."""
    await _fail(house, "nobody@example.org", "2001:db8::1", 10)
    for number in range(40):
        await _fail(house, f"{number}@example.org", f"2001:db8::{number + 2:x}", 1)

    assert await _fail(house, "one.more@example.org", "2001:db8::ffff", 1) == {429}
    assert await _fail(house, "one.more@example.org", "2001:db8:1::1", 1) == {400}


async def test_many_addresses_cannot_try_one_account(house: House) -> None:
    """After a hundred failures the account is refused to everybody for the while."""
    email = await house.somebody()
    for number in range(10):
        await _fail(house, email, f"203.0.113.{number}", 10)

    assert await _fail(house, email, HOME.address, 1) == {429}


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
async def test_body_that_makes_no_sense_is_refused(house: House, body: bytes, status: int) -> None:
    """Always in the shape that clients know, never as an error of ours."""
    async with _http() as plain:
        answer = await plain.post(
            f"{house.url}/auth/v1/token?grant_type=password",
            content=body,
            headers={"Content-Type": "application/json"},
        )

    assert answer.status_code == status
    assert answer.json()["code"] == status
    assert {"code", "error_code", "msg"} <= answer.json().keys()


@pytest.mark.parametrize("query", ["", "?grant_type=", "?grant_type=pkce", "?grant_type=id_token"])
async def test_other_ways_in_are_refused(house: House, query: str) -> None:
    """There is no way in but a password and a refresh token."""
    async with _http() as plain:
        answer = await plain.post(f"{house.url}/auth/v1/token{query}", json={})

    assert (answer.status_code, answer.json()["error_code"]) == (400, "validation_failed")


@pytest.mark.parametrize(("piece", "status"), [(b"", 408), (b" " * 1000, 413)])
async def test_body_that_never_ends_is_given_up(
    house: House, monkeypatch: pytest.MonkeyPatch, piece: bytes, status: int
) -> None:
    """Neither one that stops half-way nor an endless one holds the server."""
    monkeypatch.setattr(route, "BODY_SECONDS", 0.3)
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


async def test_errors_quote_no_password(house: House) -> None:
    """Neither an answer nor a line of the log has it."""
    email = await house.somebody()
    with structlog.testing.capture_logs() as lines:
        async with _http() as plain:
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


async def test_answers_with_tokens_are_not_kept_on_the_way(house: House) -> None:
    """No cache may hand them to somebody else."""
    body = {"email": await house.somebody(), "password": PASSWORD}
    async with _http() as plain:
        answer = await plain.post(f"{house.url}/auth/v1/token?grant_type=password", json=body)

    assert answer.headers["cache-control"] == "no-store"


async def test_database_that_is_away_is_an_outage(house: House) -> None:
    """The client is told to come back, not that the password is wrong."""
    away = service.Service("postgresql://x@127.0.0.1:1/x", KEYS, site_url=SITE, hasher=CHEAP)
    app = FastAPI()
    app.include_router(routes.router(away))
    async with serving(app) as url, _http() as plain:
        health = await plain.get(f"{url}/auth/v1/health")
        client = await supabase.acreate_client(
            url, "x", supabase.AsyncClientOptions(httpx_client=plain)
        )
        with pytest.raises(auth_errors.AuthRetryableError) as caught:
            await _sign_in(client, "ada@example.org")
    await away.aclose()

    assert caught.value.status == health.status_code == 503
    assert int(health.headers["retry-after"]) > 0
    assert house.url


async def test_clients_learn_what_ways_in_there_are(house: House) -> None:
    """Health, settings and public keys have the shapes of Supabase Auth."""
    async with _http(f"{house.url}/auth/v1") as plain:
        health, ways, public = [
            (await plain.get(path)).raise_for_status().json()
            for path in ("/health", "/settings", "/.well-known/jwks.json")
        ]

    assert {"name", "version", "description"} == health.keys()
    assert (ways["disable_signup"], ways["external"]["email"]) == (True, True)
    assert public == {"keys": []}


async def test_openapi_documents_every_answer(house: House) -> None:
    """Each refusal has its shape there, and the routes that want a token say so."""
    async with _http() as plain:
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


async def test_first_administrator_is_made_once(empty_house: House) -> None:
    """Where nobody can sign in yet, somebody is let in to add the others, by one of many."""
    people = empty_house.service.users
    made = await asyncio.gather(*(people.add_first_admin("admin@example.org") for _ in range(5)))
    made.append(await people.add_first_admin("admin@example.org"))

    (password,) = (password for password in made if password)
    assert await empty_house.service.sign_in("admin@example.org", password, HOME)
    assert [(p.email, p.is_admin) for p in await people.everybody()] == [
        ("admin@example.org", True)
    ]


async def test_database_of_an_older_version_gets_what_it_lacks(empty_house: House) -> None:
    """Whoever was there stays, and can sign in once a password is given."""
    user = await empty_house.database.create_user("old@example.org")
    url = empty_house.database.url(cluster.SUPERUSER)
    conn = await empty_house.database.connect(cluster.SUPERUSER)
    await conn.execute("drop table auth.sessions, auth.failed_sign_ins")
    await conn.execute("alter table auth.users drop recovery_token, drop recovery_sent_at")
    await conn.execute("comment on schema auth is 'as it was'")

    await bootstrap.bootstrap(url)

    await empty_house.service.users.set_password("old@example.org", PASSWORD)
    grant = await empty_house.service.sign_in("old@example.org", PASSWORD, HOME)
    assert grant.user.id == user
    assert await empty_house.service.users.recovery_link("old@example.org")


@pytest.mark.parametrize("table", ["users", "sessions", "failed_sign_ins"])
@pytest.mark.parametrize("who", ["anon", "authenticated", "service_role"])
async def test_tables_of_the_sign_in_are_hidden_from_the_api(
    house: House, table: str, who: str
) -> None:
    """No role of the API reads or writes them."""
    for statement in ("select from auth.{}", "delete from auth.{}"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with house.database.acting_as(who) as conn:
                await conn.execute(statement.format(table).encode())


async def test_passwords_are_kept_as_argon2_hashes_of_usual_cost(house: House) -> None:
    """What OWASP recommends, in a time that a person does not notice."""
    hashing = passwords.Passwords(passwords.usual_hasher())
    kept = await hashing.encrypt(PASSWORD)
    started = time.monotonic()
    right, wrong = await hashing.match(kept, PASSWORD), await hashing.match(kept, "wrong")

    assert re.match(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$", kept)
    assert (right, wrong) == (True, False)
    assert await hashing.match("$2a$10$a.hash.of.bcrypt", PASSWORD) is False
    assert time.monotonic() - started < 10
    assert house.url
