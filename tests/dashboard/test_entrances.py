"""The sign-in of a Supabase project, which the embedded one stands for: same routes, over HTTP."""

from __future__ import annotations

import dataclasses

import pytest
from fastapi import Response

from dashboard import entrances, visitors
from functions import dashboard_parts
from pagewarden import errors
from tests.dashboard import place as places
from tests.functions.sign_in import houses


async def test_a_project_signs_people_in_and_out(place: places.Place) -> None:
    """The tokens go on, and end with the session."""
    person = await place.person()
    async with entrances.hosted(place.url, "sb_publishable_of_a_test") as entrance:
        first = await entrance.sign_in(person.email, places.PASSWORD, houses.HOME)
        second = await entrance.refresh(first.refresh_token, houses.HOME)
        assert second.refresh_token != first.refresh_token
        await entrance.sign_out(second.access_token)
        with pytest.raises(errors.SignInRefused):
            await entrance.refresh(second.refresh_token, houses.HOME)


async def test_refusals_of_a_project_are_passed_on(place: places.Place) -> None:
    """Wrong passwords and too many of them are told apart."""
    person = await place.person()
    async with entrances.hosted(place.url, "sb_publishable_of_a_test") as entrance:
        for _ in range(10):
            with pytest.raises(errors.SignInRefused) as refused:
                await entrance.sign_in(person.email, "wrong", houses.HOME)
        assert refused.value.code == "invalid_credentials"
        with pytest.raises(errors.SignInRefused) as limited:
            await entrance.sign_in(person.email, "wrong", houses.HOME)
    assert limited.value.status == 429
    assert limited.value.retry_after


async def test_a_project_that_is_away_refuses_nobody() -> None:
    """An outage is told from a refusal."""
    async with entrances.hosted("http://127.0.0.1:9", "sb_publishable_of_a_test") as entrance:
        with pytest.raises(errors.SignInAway):
            await entrance.refresh("token", houses.HOME)


async def test_over_https_the_cookies_stay_there(place: places.Place) -> None:
    """They are sent encrypted only, and to this very host."""
    chosen = place.functions.used.settings.model_copy(update={"site_url": "https://example.org"})
    used = dataclasses.replace(place.functions.used, settings=chosen)
    async with dashboard_parts.opened(used) as parts:
        answer = Response()
        visitors.keep(answer, parts, entrances.Session("a", "b"))
    cookies = answer.headers.getlist("set-cookie")
    assert len(cookies) == 2
    assert all(cookie.startswith("__Host-") and "; Secure" in cookie for cookie in cookies)
