"""Errors: their status, message and count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gpu_service import harness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A ready service with a fast fake engine."""
    async with harness.start_ready_service() as running:
        yield running


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "EmptyFile"),
        (b"just some words", "UnsupportedFile"),
        (b"%PDF-1.7\nand nothing else", "DamagedFile"),
    ],
)
async def test_unreadable_document_is_refused_with_status_422(
    service: harness.RunningService, content: bytes, code: str
) -> None:
    """The message names the document."""
    error = harness.require_error(await service.read(content, name="letter.pdf"), 422)
    assert error["code"] == code
    assert error["category"] == "permanent"
    assert error["message"].startswith("letter.pdf")


async def test_refusals_are_counted(service: harness.RunningService) -> None:
    """The label is the code of the error."""
    before = await service.metric("pagewarden_gpu_refusals_total", code="EmptyFile")
    await service.read(b"")
    assert await service.metric("pagewarden_gpu_refusals_total", code="EmptyFile") == before + 1
