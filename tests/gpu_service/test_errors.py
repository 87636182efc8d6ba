"""What is not read: the right status, a clear message, and a count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gpu_service import harness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service that reads nothing, quickly."""
    async with harness.ready() as opened:
        yield opened


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "EmptyFile"),
        (b"just some words", "UnsupportedFile"),
        (b"%PDF-1.7\nand nothing else", "DamagedFile"),
    ],
)
async def test_what_is_no_document_is_refused(
    place: harness.Place, content: bytes, code: str
) -> None:
    """Before the first line the status says it, and the message names the document."""
    said = harness.error(await place.read(content, name="letter.pdf"), 422)
    assert said["code"] == code
    assert said["category"] == "permanent"
    assert said["message"].startswith("letter.pdf")


async def test_refusals_are_counted(place: harness.Place) -> None:
    """By what was wrong."""
    before = await place.meter("pagewarden_gpu_refusals_total", code="EmptyFile")
    await place.read(b"")
    assert await place.meter("pagewarden_gpu_refusals_total", code="EmptyFile") == before + 1
