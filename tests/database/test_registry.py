"""Registry, the class that extractors in Python use, over both transports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.registry import Registry, RegistryStatus
from tests.support import transports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases


@pytest.fixture(params=transports.NAMES)
async def registry(
    request: pytest.FixtureRequest, database: databases.Database
) -> AsyncIterator[Registry]:
    """Return the registry of an extractor, over each transport."""
    async with transports.open_database(request.param, database) as connected:
        yield Registry(connected, "extractor-1")


async def test_document_is_extracted_and_read(registry: Registry) -> None:
    """Enqueued, extracted, attached and read; then its text is available."""
    later = await registry.enqueue("acte", "later")
    entry = await registry.enqueue("acte", "urgent", priority=5, language="fra")
    assert (entry.status, entry.priority) == (RegistryStatus.EN_ATTENTE, 5)
    assert [waiting.id for waiting in await registry.list_waiting("acte")] == [entry.id, later.id]

    assert not await registry.renew(entry.id)
    assert await registry.begin(entry.id)
    assert await registry.renew(entry.id)
    assert await registry.attach(entry.id, "registry/urgent.PDF", sha256="a" * 64)
    attached = await registry.get(entry.id)
    assert attached is not None
    assert (attached.status, attached.path) == (RegistryStatus.COMPLETE, "registry/urgent.PDF")
    assert (attached.worker_id, attached.extracted_by) == (None, "extractor-1")
    assert not await registry.attach(entry.id, "registry/again.pdf")

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
    done = await registry.get(entry.id)
    assert done is not None
    assert done.status is RegistryStatus.EXTRACTION_COMPLETE
    assert await registry.get_pages(entry.id) == ["le texte"]


async def test_change_by_another_extractor_makes_a_call_return_false(registry: Registry) -> None:
    """The call has no effect."""
    entry = await registry.enqueue("index", "contested")
    other = Registry(registry.database, "extractor-2")
    began = await asyncio.gather(registry.begin(entry.id), other.begin(entry.id))
    assert sorted(began) == [False, True]
    loser = other if began[0] else registry
    assert not await loser.attach(entry.id, "registry/stolen.pdf")
    assert not await loser.fail(entry.id, "not mine")
    assert not await loser.renew(entry.id)
    winner = registry if began[0] else other
    assert await loser.release(entry.id, worker_id=winner.worker_id)
    assert not await winner.attach(entry.id, "registry/late.pdf")
    assert not await registry.retry(entry.id)
    assert not await registry.begin("00000000-0000-0000-0000-000000000000")


async def test_extraction_error_does_not_change_the_ocr_error(registry: Registry) -> None:
    """A failed extraction can be retried."""
    entry = await registry.enqueue("index", "unreachable")
    await registry.begin(entry.id)
    assert await registry.fail(entry.id, "the site did not answer")
    failed = await registry.get(entry.id)
    assert failed is not None
    assert (failed.status, failed.error_message) == (
        RegistryStatus.ERREUR,
        "the site did not answer",
    )
    assert (failed.ocr_error, failed.extraction_failures) == (None, 1)
    assert await registry.retry(entry.id)
    retried = await registry.get(entry.id)
    assert retried is not None
    assert retried.status is RegistryStatus.EN_ATTENTE


async def test_invalid_documents_are_refused(registry: Registry) -> None:
    """The error names the invalid column."""
    with pytest.raises(errors.InvalidArgument, match="lane"):
        await registry.enqueue("nope", "name")
    with pytest.raises(errors.InvalidArgument, match="document_name"):
        await registry.enqueue("acte", "")
    assert await registry.get("00000000-0000-0000-0000-000000000000") is None


async def test_folder_is_removed_after_use(registry: Registry) -> None:
    """Each document has a separate folder, named after the extractor."""
    with registry.folder() as first, registry.folder() as second:
        (first / "download.pdf").write_bytes(b"%PDF")
        assert first != second
        assert first.name.startswith("extractor-1-")
    assert not first.exists()
    assert not second.exists()
