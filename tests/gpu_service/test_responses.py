"""Streamed JSON lines: keep-alive lines and the final error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden.ocr import gpu_protocol
from tests.gpu_service import harness
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A ready service with a fast fake engine."""
    async with harness.start_ready_service() as running:
        yield running


async def test_error_after_the_first_line_is_the_last_line(service: harness.RunningService) -> None:
    """It has all fields that the client needs to raise it again."""
    answer = await service.read(drawn.document(*["white"] * 6, "engine-away"))
    first, *_, last = harness.parse_lines(answer)
    assert (answer.status_code, first["document"]["page_count"]) == (200, 7)
    assert last["error"] == {
        "code": "EngineUnavailable",
        "message": "the service is not responding; try again later",
        "category": "transient",
        "outage": True,
    }


async def test_slow_page_sends_keep_alive_lines(
    service: harness.RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lines come while there is no other line, also before the first page."""
    monkeypatch.setattr(gpu_protocol, "KEEP_ALIVE_SECONDS", 0.05)
    async with service.session.stream(
        "POST", "/v1/read", content=drawn.document("hang"), headers=harness.TIFF
    ) as response:
        assert response.status_code == 200
        pulses = response.aiter_raw()
        assert [await anext(pulses) for _ in range(3)] == [b"\n"] * 3


async def test_error_after_a_keep_alive_line_is_a_line(
    service: harness.RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status was sent already."""
    monkeypatch.setattr(gpu_protocol, "KEEP_ALIVE_SECONDS", 0.0)
    answer = await service.read(b"no document")
    assert answer.status_code == 200
    assert [line["error"]["code"] for line in harness.parse_lines(answer)] == ["UnsupportedFile"]
