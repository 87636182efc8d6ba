"""Signing in and out, and staying signed in."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING

import pytest

from dashboard import route, visitors
from tests.dashboard import place as places

if TYPE_CHECKING:
    import httpx

ACCESS, REFRESH = "pagewarden-access", "pagewarden-refresh"
NEARLY_OVER = dt.timedelta(hours=-1, seconds=visitors.RENEW_SECONDS / 2)


def _cookies(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("set-cookie")


async def test_a_page_leads_to_the_sign_in_and_back(place: places.Place) -> None:
    """Whoever was not signed in lands on the page that was wanted, query and all."""
    person = await place.person()
    async with place.visitor() as client:
        turned_away = await client.get("/documents?status=queued")
        assert turned_away.headers["location"] == "/sign-in?next=%2Fdocuments%3Fstatus%3Dqueued"

        let_in = await places.sign_in(client, person.email, then="/documents?status=queued")

        assert (let_in.status_code, let_in.headers["location"]) == (303, "/documents?status=queued")
        assert (await client.get("/documents")).status_code == 200


async def test_the_cookies_are_out_of_reach(place: places.Place) -> None:
    """No script reads them, and no other site's form sends them."""
    person = await place.person()
    async with place.visitor() as client:
        cookies = _cookies(await places.sign_in(client, person.email))

    assert {cookie.partition("=")[0] for cookie in cookies} == {ACCESS, REFRESH}
    assert all("HttpOnly" in cookie and "SameSite=lax" in cookie for cookie in cookies)


async def test_a_wrong_password_is_told(place: places.Place) -> None:
    """The answer keeps the address, gives no cookie, and says nothing of who exists."""
    person = await place.person()
    async with place.visitor() as client:
        known = await places.sign_in(client, person.email, "wrong")
        unknown = await places.sign_in(client, "nobody@example.org", "wrong")

    assert known.status_code == unknown.status_code == 401
    assert "The address or the password is wrong." in known.text
    assert person.email in known.text
    assert known.text.replace(person.email, "") == unknown.text.replace("nobody@example.org", "")
    assert _cookies(known) == []


async def test_too_many_attempts_are_told(place: places.Place) -> None:
    """After ten failures not even the right password helps."""
    person = await place.person()
    async with place.visitor() as client:
        for _ in range(10):
            await places.sign_in(client, person.email, "wrong")
        answer = await places.sign_in(client, person.email)

    assert answer.status_code == 429
    assert "too many attempts" in answer.text


AWAY = ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "x", ""]


@pytest.mark.parametrize("wanted", AWAY)
def test_only_our_own_paths_count(wanted: str) -> None:
    """Whatever a browser would take for another site is none of them."""
    assert route.own_path(wanted) == "/"


async def test_nobody_is_led_away(place: places.Place) -> None:
    """After signing in one stays here, whatever a link said."""
    person = await place.person()
    async with place.visitor() as client:
        answer = await places.sign_in(client, person.email, then="//evil.example")
    assert answer.headers["location"] == "/"


async def test_two_tabs_renew_the_session_at_once(place: places.Place) -> None:
    """Both use the same refresh token, and neither signs the person out."""
    person = await place.person()
    place.clock.ahead = NEARLY_OVER
    async with place.visitor(person) as client:
        old = client.cookies[REFRESH]
        place.clock.ahead = dt.timedelta(0)
        jar = dict(client.cookies)
        client.cookies.clear()
        answers = await asyncio.gather(
            *(client.get("/documents", headers=_header(jar)) for _ in range(4))
        )

        assert [answer.status_code for answer in answers] == [200] * 4
        assert all(len(_cookies(answer)) == 2 for answer in answers)
        assert client.cookies[REFRESH] != old
        again = await client.get("/documents")
        assert again.status_code == 200
        assert _cookies(again) == []


async def test_an_expired_access_token_is_renewed(place: places.Place) -> None:
    """Somebody who comes back after hours is still signed in."""
    person = await place.person()
    place.clock.ahead = dt.timedelta(hours=-5)
    async with place.visitor(person) as client:
        place.clock.ahead = dt.timedelta(0)
        assert (await client.get("/documents")).status_code == 200


async def test_signing_out_ends_the_session(place: places.Place) -> None:
    """The cookies are gone, and the refresh token is worth nothing."""
    person = await place.person()
    async with place.visitor(person) as client:
        kept = dict(client.cookies)
        form = {"csrf": await csrf(client)}
        assert (await client.post("/sign-out", data=form)).headers["location"] == "/sign-in"
        assert dict(client.cookies) == {}

        stolen = {REFRESH: kept[REFRESH]}
        answer = await client.get("/documents", headers=_header(stolen))
        assert answer.headers["location"].startswith("/sign-in")


async def csrf(client: httpx.AsyncClient) -> str:
    """Read the token from a page."""
    page = await client.get("/documents")
    return page.text.partition('name="csrf" content="')[2].partition('"')[0]


def _header(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
