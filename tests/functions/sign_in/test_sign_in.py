"""Signing in at the embedded stack, with the client of Supabase over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import re
import uuid
from typing import Any

import argon2
import jwt
import psycopg
import pytest
from supabase_auth import errors as auth_errors

from pagewarden import database as gateways
from pagewarden import errors
from pagewarden.auth import tokens
from pagewarden.auth.embedded import service, sessions, users
from pagewarden.database import tables
from pagewarden.local import bootstrap, cluster
from tests.functions.sign_in import houses


async def test_password_lets_its_owner_in(house: houses.House) -> None:
    """The client of Supabase has a session afterwards, and knows who it is."""
    email = await house.somebody()
    async with house.client() as client:
        session = await houses.sign_in(client, f" {email.upper()}")
        found = await client.auth.get_user()
        claims = await client.auth.get_claims()

    caller = await tokens.TokenVerifier(houses.KEYS, issuer=f"{houses.SITE}/auth/v1").verify(
        session.access_token
    )
    assert found is not None
    assert claims is not None
    assert (session.user.email, found.user.email, caller.email) == (email, email, email)
    assert session.user.id == found.user.id == caller.user_id == claims["claims"]["sub"]
    assert (session.expires_in, session.token_type) == (3600, "bearer")
    assert caller.role == "authenticated"
    assert found.user.last_sign_in_at is not None
    assert "encrypted" not in found.model_dump_json()


async def test_database_sees_who_signed_in(house: houses.House) -> None:
    """Row-level security asks for the id in the token, and the claims are all there."""
    async with (
        house.signed_in() as ada,
        house.signed_in() as eve,
        await gateways.connect_direct(house.database.url("authenticator")) as link,
    ):
        verifier = tokens.TokenVerifier(houses.KEYS)
        caller, other = [
            await verifier.verify((await houses.session_of(client)).access_token)
            for client in (ada, eve)
        ]
        case = await link.acting_as(caller.user()).create_case(name="Letters")
        seen = await link.acting_as(caller.user()).select(tables.cases)
        hidden = await link.acting_as(other.user()).select(tables.cases)

    assert [(row["id"], row["user_id"]) for row in seen] == [(case, caller.user_id)]
    assert hidden == []


async def test_everybody_who_is_not_let_in_is_told_the_same(
    house: houses.House,
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
            (email, houses.PASSWORD + " "),
            ("nobody@example.org", houses.PASSWORD),
            ("no address", houses.PASSWORD),
            (banned, houses.PASSWORD),
            (without, houses.PASSWORD),
        ):
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await houses.sign_in(client, address, password)
            said.add((caught.value.status, caught.value.code, caught.value.message))

    assert said == {(400, "invalid_credentials", "Invalid login credentials")}


async def test_unknown_address_takes_as_long_as_a_wrong_password(house: houses.House) -> None:
    """A password is compared in both cases, with the same costs."""
    compared = []

    class Watched(argon2.PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002
            compared.append(argon2.extract_parameters(str(hash)))
            return super().verify(hash, password)

    watched = Watched(time_cost=1, memory_cost=16, parallelism=1)
    signing = service.AuthService(
        house.database.url(), houses.KEYS, site_url=houses.SITE, hasher=watched
    )
    email = f"{uuid.uuid4().hex}@example.org"
    await signing.users.add(email, houses.PASSWORD, is_admin=False)
    for address in (email, "nobody@example.org"):
        with pytest.raises(errors.SignInRejected):
            await signing.sign_in(address, "something else", houses.HOME)
    await signing.aclose()

    assert len(compared) == 2
    assert compared[0] == compared[1]


@pytest.mark.parametrize("address", ["", "somewhere", "fe80::1%eth0", "::ffff:192.0.2.1"])
async def test_wherever_somebody_calls_from_the_password_counts(
    house: houses.House, address: str
) -> None:
    """An address that says nothing, or has a zone, is no obstacle."""
    origin = sessions.RequestOrigin(address, "x" * 10_000)

    assert await house.service.sign_in(await house.somebody(), houses.PASSWORD, origin)


async def test_refresh_token_is_good_once(house: houses.House) -> None:
    """Each refresh gives another token; the one before is void once the moment has passed."""
    async with house.signed_in() as client:
        first = await houses.session_of(client)
        second = await houses.refresh(client, first.refresh_token)
        third = await houses.refresh(client, second.refresh_token)

    assert len({first.refresh_token, second.refresh_token, third.refresh_token}) == 3
    assert first.user.id == third.user.id


async def test_used_refresh_token_ends_the_session(house: houses.House) -> None:
    """One of the two who had it is a thief, so neither may go on."""
    async with house.signed_in() as client:
        stolen = (await houses.session_of(client)).refresh_token
        current = await houses.refresh(client, stolen)
        house.ahead += sessions.REUSE_INTERVAL
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await houses.refresh(client, stolen)
        with pytest.raises(auth_errors.AuthApiError) as after:
            await houses.refresh(client, current.refresh_token)
        with pytest.raises(auth_errors.AuthApiError) as access:
            await client.auth.get_user(current.access_token)

    assert (caught.value.status, str(caught.value.code)) == (400, "refresh_token_already_used")
    assert (after.value.status, str(after.value.code)) == (400, "refresh_token_not_found")
    assert access.value.code == "session_not_found"


async def test_token_before_the_last_one_ends_the_session_at_once(house: houses.House) -> None:
    """The moment of grace is for the answer that got lost, not for older tokens."""
    async with house.signed_in() as client:
        first = await houses.session_of(client)
        second = await houses.refresh(client, first.refresh_token)
        await houses.refresh(client, second.refresh_token)
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await houses.refresh(client, first.refresh_token)

    assert str(caught.value.code) == "refresh_token_already_used"


async def test_refreshing_many_times_at_once_gives_one_token(house: houses.House) -> None:
    """Tabs of a browser race; all of them go on."""
    async with house.signed_in() as client:
        token = (await houses.session_of(client)).refresh_token
        body = {"refresh_token": token}
        url = f"{house.url}/auth/v1/token?grant_type=refresh_token"
        async with houses.http() as plain:
            answers = await asyncio.gather(*(plain.post(url, json=body) for _ in range(12)))

        assert {answer.status_code for answer in answers} == {200}
        (following,) = {answer.json()["refresh_token"] for answer in answers}
        assert (await houses.refresh(client, following)).user.id


@pytest.mark.parametrize("token", ["", "x", "ü", "A" * 64, "A" * 63 + "!", "A" * 10_000])
async def test_made_up_refresh_token_is_refused(house: houses.House, token: str) -> None:
    """It is signed, so nothing is looked up for it."""
    async with houses.http() as plain:
        answer = await plain.post(
            f"{house.url}/auth/v1/token?grant_type=refresh_token", json={"refresh_token": token}
        )

    assert (answer.status_code, answer.json()["error_code"]) == (400, "refresh_token_not_found")


async def test_session_nobody_uses_is_over_after_a_month(house: houses.House) -> None:
    """Its refresh token is void then."""
    async with house.signed_in() as client:
        token = (await houses.session_of(client)).refresh_token
        house.ahead += sessions.IDLE_TIMEOUT
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await houses.refresh(client, token)

    assert str(caught.value.code) == "session_expired"


async def test_banned_and_removed_people_do_not_stay_in(house: houses.House) -> None:
    """Their tokens are void at once."""
    for statement in (
        "update auth.users set banned_until = now() + interval '1 day' where email = %s",
        "delete from auth.users where email = %s",
    ):
        email = await house.somebody()
        async with house.signed_in(email) as client:
            token = (await houses.session_of(client)).refresh_token
            conn = await house.database.connect()
            await conn.execute(statement.encode(), (email,))
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await client.auth.get_user()
            assert caught.value.status == 403
            with pytest.raises(auth_errors.AuthApiError):
                await houses.refresh(client, token)


@pytest.mark.parametrize(("scope", "ended"), [("local", "0"), ("others", "12"), ("global", "012")])
async def test_signing_out_ends_sessions(house: houses.House, scope: Any, ended: str) -> None:
    """Here, everywhere else, or everywhere; what ended cannot be refreshed, what did not can."""
    email = await house.somebody()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.signed_in(email)) for _ in range(3)]
        open_sessions = [await houses.session_of(client) for client in clients]
        await clients[0].auth.sign_out({"scope": scope})

        for number, session in enumerate(open_sessions):
            if str(number) in ended:
                with pytest.raises(auth_errors.AuthApiError) as refreshed:
                    await houses.refresh(clients[number], session.refresh_token)
                with pytest.raises(auth_errors.AuthApiError) as asked:
                    await clients[number].auth.get_user(session.access_token)
                assert str(refreshed.value.code) == "refresh_token_not_found"
                assert (asked.value.status, asked.value.code) == (403, "session_not_found")
            else:
                assert await houses.refresh(clients[number], session.refresh_token)


async def test_expired_access_token_is_refused(house: houses.House) -> None:
    """The client is told that the token, not the person, is the trouble."""
    house.ahead -= dt.timedelta(hours=2)
    email = await house.somebody()
    async with house.client() as client:
        answer = await client.auth.sign_in_with_password(
            {"email": email, "password": houses.PASSWORD}
        )
        assert answer.session is not None
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.get_user(answer.session.access_token)

    assert (caught.value.status, caught.value.code) == (403, "bad_jwt")
    assert "expired" in caught.value.message


async def test_forged_access_tokens_are_refused(house: houses.House) -> None:
    """Another secret, no algorithm, no session, somebody else's session, a key: all of them."""
    async with house.signed_in() as client, house.signed_in() as other:
        claims = houses.claims_of(await houses.session_of(client))
        theirs = houses.claims_of(await houses.session_of(other))
        without = {name: value for name, value in claims.items() if name != "session_id"}
        forged = [
            jwt.encode(claims, "another secret, which is long enough, too", "HS256"),
            jwt.encode(claims, "", "none"),
            jwt.encode(claims, houses.SECRET * 2, "HS512"),
            jwt.encode(without, houses.SECRET, "HS256"),
            jwt.encode(claims | {"session_id": 5}, houses.SECRET, "HS256"),
            jwt.encode(claims | {"session_id": theirs["session_id"]}, houses.SECRET, "HS256"),
            jwt.encode(claims | {"sub": theirs["sub"]}, houses.SECRET, "HS256"),
            jwt.encode({"role": "service_role", "exp": claims["exp"]}, houses.SECRET, "HS256"),
            houses.KEYS.secret_key,
            houses.KEYS.publishable_key or "",
        ]
        for token in forged:
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await client.auth.get_user(token)
            assert caught.value.status == 403

        assert await client.auth.get_user((await houses.session_of(client)).access_token)


async def test_request_without_a_token_is_refused(house: houses.House) -> None:
    """401, with the header that says what is missing."""
    async with houses.http(f"{house.url}/auth/v1") as plain:
        for answer in (
            await plain.get("/user"),
            await plain.put("/user", json={}),
            await plain.post("/logout"),
            await plain.get("/user", headers={"Authorization": "Basic eDp5"}),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (401, "no_authorization")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_strangers_cannot_sign_up(house: houses.House) -> None:
    """Neither with an address nor without; the client is told why."""
    async with house.client() as client:
        for attempt in (
            client.auth.sign_up({"email": "eve@example.org", "password": houses.PASSWORD}),
            client.auth.sign_in_anonymously(),
        ):
            with pytest.raises(auth_errors.AuthApiError) as caught:
                await attempt
            assert (caught.value.status, caught.value.code) == (422, "signup_disabled")

    assert await house.service.users.find("eve@example.org") is None


async def test_clients_learn_what_ways_in_there_are(house: houses.House) -> None:
    """Health, settings and public keys have the shapes of Supabase Auth."""
    async with houses.http(f"{house.url}/auth/v1") as plain:
        health, ways, public = [
            (await plain.get(path)).raise_for_status().json()
            for path in ("/health", "/settings", "/.well-known/jwks.json")
        ]

    assert {"name", "version", "description"} == health.keys()
    assert (ways["disable_signup"], ways["external"]["email"]) == (True, True)
    assert public == {"keys": []}


async def test_first_administrator_is_made_once(empty_house: houses.House) -> None:
    """Where nobody can sign in yet, somebody is let in to add the others, by one of many."""
    people = empty_house.service.users
    made = await asyncio.gather(*(people.add_first_admin("admin@example.org") for _ in range(5)))
    made.append(await people.add_first_admin("admin@example.org"))

    (password,) = (password for password in made if password)
    assert await empty_house.service.sign_in("admin@example.org", password, houses.HOME)
    assert [(p.email, p.is_admin) for p in await people.list_all()] == [("admin@example.org", True)]


async def test_database_of_an_older_version_gets_what_it_lacks(empty_house: houses.House) -> None:
    """Whoever was there stays, and can sign in once a password is given."""
    user = await empty_house.database.create_user("old@example.org")
    url = empty_house.database.url(cluster.SUPERUSER)
    conn = await empty_house.database.connect(cluster.SUPERUSER)
    await conn.execute("drop table auth.sessions, auth.failed_sign_ins")
    await conn.execute("alter table auth.users drop recovery_token, drop recovery_sent_at")
    await conn.execute("comment on schema auth is 'as it was'")

    await bootstrap.bootstrap(url)

    await empty_house.service.users.set_password("old@example.org", houses.PASSWORD)
    grant = await empty_house.service.sign_in("old@example.org", houses.PASSWORD, houses.HOME)
    assert grant.user.id == user
    assert await empty_house.service.users.create_recovery_link("old@example.org")


@pytest.mark.parametrize("table", ["users", "sessions", "failed_sign_ins"])
@pytest.mark.parametrize("who", ["anon", "authenticated", "service_role"])
async def test_tables_of_the_sign_in_are_hidden_from_the_api(
    house: houses.House, table: str, who: str
) -> None:
    """No role of the API reads or writes them."""
    for statement in ("select from auth.{}", "delete from auth.{}"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with house.database.acting_as(who) as conn:
                await conn.execute(statement.format(table).encode())


async def test_passwords_are_kept_as_argon2_hashes_of_usual_cost(house: houses.House) -> None:
    """The cost is the one that OWASP recommends."""
    hashing = users.ThreadedPasswordHasher(users.make_hasher())
    kept = await hashing.hash_password(houses.PASSWORD)
    right, wrong = (
        await hashing.is_correct(kept, houses.PASSWORD),
        await hashing.is_correct(kept, "wrong"),
    )

    assert re.match(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$", kept)
    assert (right, wrong) == (True, False)
    assert await hashing.is_correct("$2a$10$a.hash.of.bcrypt", houses.PASSWORD) is False
    assert house.url
