"""Lines of JSON as they come: signs of life, and the error at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden.gpu import protocol
from tests.gpu_service import harness
from tests.reading import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service that reads nothing, quickly."""
    async with harness.ready() as opened:
        yield opened


async def test_an_error_after_the_first_line_is_the_last_line(place: harness.Place) -> None:
    """With all that the client needs to raise it again."""
    answer = await place.read(drawn.document(*["white"] * 6, "away"))
    first, *_, last = harness.lines(answer)
    assert (answer.status_code, first["document"]["page_count"]) == (200, 7)
    assert last["error"] == {
        "code": "EngineAway",
        "message": "the service does not answer; try again later",
        "category": "transient",
        "outage": True,
    }


async def test_a_slow_page_is_told_from_a_dead_service(
    place: harness.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lines come while nothing else does, before the first page too."""
    monkeypatch.setattr(protocol, "PULSE_SECONDS", 0.05)
    async with place.session.stream(
        "POST", "/v1/read", content=drawn.document("asleep"), headers=harness.TIFF
    ) as response:
        assert response.status_code == 200
        pulses = response.aiter_raw()
        assert [await anext(pulses) for _ in range(3)] == [b"\n"] * 3


async def test_an_error_after_a_sign_of_life_is_a_line(
    place: harness.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status has been sent, so the error has to come as a line."""
    monkeypatch.setattr(protocol, "PULSE_SECONDS", 0.0)
    answer = await place.read(b"no document")
    assert answer.status_code == 200
    assert [line["error"]["code"] for line in harness.lines(answer)] == ["UnsupportedFile"]
