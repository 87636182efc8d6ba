"""Signing in and out, and staying signed in."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING

import pytest

from pagewarden.dashboard import route, sessions
from tests.dashboard import site as sites

if TYPE_CHECKING:
    import httpx

ACCESS, REFRESH = "pagewarden-access", "pagewarden-refresh"
NEARLY_OVER = dt.timedelta(hours=-1, seconds=sessions.RENEW_SECONDS / 2)


def _cookies(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("set-cookie")


async def test_the_sign_in_redirects_back(site: sites.Site) -> None:
    """To the requested page, with its query."""
    person = await site.add_person()
    async with site.client() as client:
        turned_away = await client.get("/documents?status=queued")
        assert turned_away.headers["location"] == "/sign-in?next=%2Fdocuments%3Fstatus%3Dqueued"

        let_in = await sites.sign_in(client, person.email, then="/documents?status=queued")

        assert (let_in.status_code, let_in.headers["location"]) == (303, "/documents?status=queued")
        assert (await client.get("/documents")).status_code == 200


async def test_cookies_are_protected(site: sites.Site) -> None:
    """Scripts cannot read them, and forms of other sites do not send them."""
    person = await site.add_person()
    async with site.client() as client:
        cookies = _cookies(await sites.sign_in(client, person.email))

    assert {cookie.partition("=")[0] for cookie in cookies} == {ACCESS, REFRESH}
    assert all("HttpOnly" in cookie and "SameSite=lax" in cookie for cookie in cookies)


async def test_a_wrong_password_is_rejected(site: sites.Site) -> None:
    """The form keeps the e-mail address; the response does not reveal which users exist."""
    person = await site.add_person()
    async with site.client() as client:
        known = await sites.sign_in(client, person.email, "wrong")
        unknown = await sites.sign_in(client, "nobody@example.org", "wrong")

    assert known.status_code == unknown.status_code == 401
    assert "Invalid e-mail address or password." in known.text
    assert person.email in known.text
    assert known.text.replace(person.email, "") == unknown.text.replace("nobody@example.org", "")
    assert _cookies(known) == []


async def test_sign_in_attempts_are_limited(site: sites.Site) -> None:
    """After ten failures even the right password is rejected."""
    person = await site.add_person()
    async with site.client() as client:
        for _ in range(10):
            await sites.sign_in(client, person.email, "wrong")
        answer = await sites.sign_in(client, person.email)

    assert answer.status_code == 429
    assert "Too many attempts" in answer.text


AWAY = ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "x", ""]


@pytest.mark.parametrize("path", AWAY)
def test_next_is_a_path_of_this_site(path: str) -> None:
    """A path that browsers treat as another site is replaced."""
    assert route.sanitize_next(path) == "/"


async def test_the_sign_in_never_redirects_to_other_sites(site: sites.Site) -> None:
    """Whatever the link contained."""
    person = await site.add_person()
    async with site.client() as client:
        answer = await sites.sign_in(client, person.email, then="//evil.example")
    assert answer.headers["location"] == "/"


async def test_concurrent_tabs_renew_the_session(site: sites.Site) -> None:
    """Both use the same refresh token, and neither signs the user out."""
    person = await site.add_person()
    site.clock.ahead = NEARLY_OVER
    async with site.client(person) as client:
        old = client.cookies[REFRESH]
        site.clock.ahead = dt.timedelta(0)
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


async def test_an_expired_access_token_is_renewed(site: sites.Site) -> None:
    """A user who returns after hours is still signed in."""
    person = await site.add_person()
    site.clock.ahead = dt.timedelta(hours=-5)
    async with site.client(person) as client:
        site.clock.ahead = dt.timedelta(0)
        assert (await client.get("/documents")).status_code == 200


async def test_signing_out_ends_the_session(site: sites.Site) -> None:
    """The cookies are deleted, and the refresh token is revoked."""
    person = await site.add_person()
    async with site.client(person) as client:
        cookies = dict(client.cookies)
        form = {"csrf": await csrf(client)}
        assert (await client.post("/sign-out", data=form)).headers["location"] == "/sign-in"
        assert dict(client.cookies) == {}

        stolen = {REFRESH: cookies[REFRESH]}
        answer = await client.get("/documents", headers=_header(stolen))
        assert answer.headers["location"].startswith("/sign-in")


async def csrf(client: httpx.AsyncClient) -> str:
    """Read the CSRF token from a page."""
    page = await client.get("/documents")
    return page.text.partition('name="csrf" content="')[2].partition('"')[0]


def _header(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
