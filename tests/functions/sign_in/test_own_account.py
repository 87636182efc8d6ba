"""What people do to their own account: change it, and get back in."""

from __future__ import annotations

import datetime as dt
from urllib.parse import parse_qs, urlsplit

import pytest
from supabase_auth import errors as auth_errors

from pagewarden.auth import tokens
from pagewarden.auth.embedded import service
from tests.functions.sign_in import houses


async def test_new_password_signs_out_everywhere_else(house: houses.House) -> None:
    """Whoever knew the old one is out; the session that changed it goes on."""
    email, changed = await house.somebody(), "another horse, another staple"
    async with house.signed_in(email) as client, house.signed_in(email) as other:
        theirs = await houses.session_of(other)
        await client.auth.update_user({"password": changed, "current_password": houses.PASSWORD})

        assert await client.auth.refresh_session()
        with pytest.raises(auth_errors.AuthApiError):
            await houses.refresh(other, theirs.refresh_token)
        with pytest.raises(auth_errors.AuthApiError):
            await houses.sign_in(other, email, houses.PASSWORD)
        assert await houses.sign_in(other, email, changed)


async def test_password_that_will_not_do_is_refused(house: houses.House) -> None:
    """Too short, too long, the old one again, or without knowing the old one; nothing changes."""
    email = await house.somebody()
    async with house.signed_in(email) as client:
        for weak in ("", "x" * 11, "x" * 1001):
            with pytest.raises(auth_errors.AuthWeakPasswordError) as caught:
                await client.auth.update_user({"password": weak})
            assert (caught.value.status, caught.value.reasons) == (422, ["length"])
        with pytest.raises(auth_errors.AuthApiError) as same:
            await client.auth.update_user({"password": houses.PASSWORD})
        with pytest.raises(auth_errors.AuthApiError) as wrong:
            await client.auth.update_user({"password": "x" * 12, "current_password": "wrong"})
        assert (same.value.code, wrong.value.code) == ("same_password", "invalid_credentials")

        assert await houses.sign_in(client, email)


async def test_metadata_is_the_persons_own_and_stays_small(house: houses.House) -> None:
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
    assert houses.claims_of(session)["user_metadata"] == {"name": "Ada", "size": 5}


async def test_person_cannot_change_rights_or_address(house: houses.House) -> None:
    """Metadata of the application and roles are not theirs; an address is changed by operators."""
    async with house.signed_in() as client:
        changed = await client.auth.update_user({"app_metadata": {"admin": True}, "role": "x"})  # type: ignore[typeddict-unknown-key]  # what a forger would send
        with pytest.raises(auth_errors.AuthApiError) as caught:
            await client.auth.update_user({"email": "eve@example.org"})

    assert (changed.user.app_metadata["provider"], changed.user.role) == ("email", "authenticated")
    assert "admin" not in changed.user.app_metadata
    assert caught.value.status == 422


async def _recovered(house: houses.House, email: str) -> str:
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


async def test_recovery_link_lets_in_once_to_choose_a_password(house: houses.House) -> None:
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
        assert await houses.sign_in(client, email, chosen)


async def test_recovery_token_is_bound_to_its_address_and_hour(house: houses.House) -> None:
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


async def test_recovery_does_not_tell_who_exists(house: houses.House) -> None:
    """The answer is the same for everybody; one link a minute is sent, to people we know."""
    email = await house.somebody()
    said, sent = set(), []
    async with houses.http(f"{house.url}/auth/v1") as plain:
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


async def test_recovery_is_asked_for_a_limited_number_of_times(house: houses.House) -> None:
    """One address cannot make us send for ever."""
    async with houses.http() as plain:
        statuses = [
            (await plain.post(f"{house.url}/auth/v1/recover", json={"email": "x"})).status_code
            for _ in range(21)
        ]

    assert statuses == [200] * 20 + [429]


async def test_database_keeps_no_recovery_token(house: houses.House) -> None:
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
        ("", houses.SITE),
        (f"{houses.SITE}/welcome?x=1#y", f"{houses.SITE}/welcome?x=1"),
        ("https://evil.example.org", houses.SITE),
        (f"{houses.SITE}.evil.example.org/", houses.SITE),
        (f"{houses.SITE}@evil.example.org/", houses.SITE),
        ("//evil.example.org", houses.SITE),
        (f"{houses.SITE}\\@evil.example.org/", houses.SITE),
        ("javascript:alert(1)", houses.SITE),
        ("http://[", houses.SITE),
    ],
)
async def test_link_leads_to_this_site_and_no_other(
    house: houses.House, asked: str, led: str
) -> None:
    """The session stands behind the #, where only the browser sees it."""
    token = await _recovered(house, await house.somebody())
    query = {"token": token, "type": "recovery", "redirect_to": asked}
    async with houses.http() as plain:
        first = await plain.get(f"{house.url}/auth/v1/verify", params=query)
        second = await plain.get(f"{house.url}/auth/v1/verify", params=query)

    where, _, found = first.headers["location"].partition("#")
    assert (first.status_code, where) == (303, led)
    assert parse_qs(found)["type"] == ["recovery"]
    caller = await tokens.TokenVerifier(houses.KEYS).verify(parse_qs(found)["access_token"][0])
    assert caller.role == "authenticated"
    assert "error_code=otp_expired" in second.headers["location"]
    assert "access_token" not in second.headers["location"]
