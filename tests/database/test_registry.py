"""The registry, as an extractor written in Python uses it, over both transports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.registry import Registry, Status
from tests.support import transports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases


@pytest.fixture(params=transports.NAMES)
async def registry(
    request: pytest.FixtureRequest, database: databases.Database
) -> AsyncIterator[Registry]:
    """Work as an extractor, over one transport after the other."""
    async with transports.opened(request.param, database) as connected:
        yield Registry(connected, "extractor-1")


async def test_a_document_goes_from_the_extractor_to_its_text(
    registry: Registry,
) -> None:
    """Asked for, extracted, handed over, read, and its text read back."""
    later = await registry.enqueue("acte", "later")
    entry = await registry.enqueue("acte", "urgent", priority=5, language="fra")
    assert (entry.status, entry.priority) == (Status.EN_ATTENTE, 5)
    assert [found.id for found in await registry.waiting("acte")] == [entry.id, later.id]

    assert await registry.begin(entry.id)
    assert await registry.attach(entry.id, "registry/urgent.PDF", sha256="a" * 64)
    seen = await registry.read(entry.id)
    assert seen is not None
    assert (seen.status, seen.path) == (Status.COMPLETE, "registry/urgent.PDF")

    (claim,) = await registry.database.rpc(
        "claim_documents", p_worker_id="w", p_lanes=["acte"], p_limit=1, p_lock_timeout=60
    )
    assert claim["id"] == entry.id
    await registry.database.rpc(
        "process_ocr_atomic",
        p_document_id=entry.id,
        p_ocr_data={"pages": [{"page_number": 1, "text": "le texte"}]},
        p_confidence=0.9,
        p_processing_time_ms=5,
        p_lock_token=claim["lock_token"],
    )
    done = await registry.read(entry.id)
    assert done is not None
    assert done.status is Status.EXTRACTION_COMPLETE
    assert await registry.text(entry.id) == ["le texte"]


async def test_what_another_did_first_is_not_done_again(registry: Registry) -> None:
    """The answer is no, and nothing has happened."""
    entry = await registry.enqueue("index", "contested")
    other = Registry(registry.database, "extractor-2")
    won = await asyncio.gather(registry.begin(entry.id), other.begin(entry.id))
    assert sorted(won) == [False, True]
    loser = other if won[0] else registry
    assert not await loser.attach(entry.id, "registry/stolen.pdf")
    assert not await loser.fail(entry.id, "not mine")
    winner = registry if won[0] else other
    assert await loser.release(entry.id, of=winner.worker_id)
    assert not await winner.attach(entry.id, "registry/late.pdf")
    assert not await registry.retry(entry.id)
    assert not await registry.begin("00000000-0000-0000-0000-000000000000")


async def test_an_extraction_error_leaves_the_ocr_error_alone(registry: Registry) -> None:
    """It is written beside it, and the extraction can be made again."""
    entry = await registry.enqueue("index", "unreachable")
    await registry.begin(entry.id)
    assert await registry.fail(entry.id, "the site did not answer")
    seen = await registry.read(entry.id)
    assert seen is not None
    assert (seen.status, seen.error_message) == (Status.ERREUR, "the site did not answer")
    assert seen.ocr_error is None
    assert await registry.retry(entry.id)
    again = await registry.read(entry.id)
    assert again is not None
    assert again.status is Status.EN_ATTENTE


async def test_senseless_documents_are_refused(registry: Registry) -> None:
    """With what is wrong with them."""
    with pytest.raises(errors.InvalidCall, match="lane"):
        await registry.enqueue("nope", "name")
    with pytest.raises(errors.InvalidCall, match="document_name"):
        await registry.enqueue("acte", "")
    assert await registry.read("00000000-0000-0000-0000-000000000000") is None


async def test_a_folder_is_gone_after_its_document(registry: Registry) -> None:
    """Each extractor has its own, with its name."""
    with registry.folder() as first, registry.folder() as second:
        (first / "download.pdf").write_bytes(b"%PDF")
        assert first != second
        assert first.name.startswith("extractor-1-")
    assert not first.exists()
    assert not second.exists()
