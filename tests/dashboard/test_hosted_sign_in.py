"""The sign-in of a Supabase project, which the embedded one stands for: same routes, over HTTP."""

from __future__ import annotations

import dataclasses

import pytest
from fastapi import Response

from pagewarden import errors
from pagewarden.auth import hosted
from pagewarden.dashboard import sessions
from tests.dashboard import site as sites
from tests.functions.sign_in import houses


async def test_users_sign_in_and_out(site: sites.Site) -> None:
    """With the tokens of a Supabase project."""
    person = await site.add_person()
    async with hosted.open_hosted_sign_in(site.url, "sb_publishable_of_a_test") as entrance:
        first = await entrance.sign_in(person.email, sites.PASSWORD, houses.HOME)
        second = await entrance.refresh(first.refresh_token, houses.HOME)
        assert second.refresh_token != first.refresh_token
        await entrance.sign_out(second.access_token)
        with pytest.raises(errors.SignInRejected):
            await entrance.refresh(second.refresh_token, houses.HOME)


async def test_rejections_are_distinguished(site: sites.Site) -> None:
    """Wrong passwords and rate limits raise different errors."""
    person = await site.add_person()
    async with hosted.open_hosted_sign_in(site.url, "sb_publishable_of_a_test") as entrance:
        for _ in range(10):
            with pytest.raises(errors.SignInRejected) as refused:
                await entrance.sign_in(person.email, "wrong", houses.HOME)
        assert refused.value.code == "invalid_credentials"
        with pytest.raises(errors.SignInRejected) as limited:
            await entrance.sign_in(person.email, "wrong", houses.HOME)
    assert limited.value.status == 429
    assert limited.value.retry_after


async def test_an_outage_is_no_rejection() -> None:
    """An unavailable project raises another error than a rejected token."""
    async with hosted.open_hosted_sign_in(
        "http://127.0.0.1:9", "sb_publishable_of_a_test"
    ) as entrance:
        with pytest.raises(errors.SignInUnavailable):
            await entrance.refresh("token", houses.HOME)


async def test_cookies_are_secure_over_https(site: sites.Site) -> None:
    """They are bound to the host and only sent encrypted."""
    chosen = site.functions.used.settings.model_copy(update={"site_url": "https://example.org"})
    used = dataclasses.replace(site.functions.used, settings=chosen)
    answer = Response()
    sessions.set_cookies(answer, used, hosted.Session("a", "b"))
    cookies = answer.headers.getlist("set-cookie")
    assert len(cookies) == 2
    assert all(cookie.startswith("__Host-") and "; Secure" in cookie for cookie in cookies)
