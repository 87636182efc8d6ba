"""Reader: page order, concurrent documents, and constant memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.ocr import child_pool, pages, reader
from pagewarden.ocr.engines import fakes
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


WIDTH, HEIGHT = drawn.SIZE


@pytest.fixture(scope="module")
async def null() -> AsyncIterator[reader.Reader]:
    """A reader without text, in two processes."""
    async with reader.Reader(engine="null", processes=2) as made:
        yield made


async def test_pages_come_in_order_from_several_processes(null: reader.Reader) -> None:
    """Each page has the right number."""
    found = [(page.number, page.width) async for page in null.read(drawn.numbered(20))]
    assert found == [(number, WIDTH + number - 1) for number in range(1, 21)]


async def test_a_path_is_read_like_its_bytes(null: reader.Reader, tmp_path: Path) -> None:
    """Both ways give the same pages; only the name in messages differs."""
    scan = tmp_path / "scan.tif"
    scan.write_bytes(drawn.numbered(2))

    from_path = [page async for page in null.read(scan)]
    from_bytes = [page async for page in null.read(drawn.numbered(2))]
    assert from_path == from_bytes


async def test_skipped_pages_are_not_read(null: reader.Reader) -> None:
    """A second attempt reads only what the first one did not; the count is that of all pages."""
    counts: list[int] = []
    source = null.read(drawn.numbered(6), skip=frozenset({1, 2, 4}), on_open=counts.append)

    assert [page.number async for page in source] == [3, 5, 6]
    assert counts == [6]


async def test_document_with_all_pages_skipped_gives_none(null: reader.Reader) -> None:
    """It is not an error."""
    assert [page async for page in null.read(drawn.numbered(2), skip=range(100))] == []


async def test_an_unreadable_document_raises_its_error(null: reader.Reader) -> None:
    """One error, of the right kind, that names the document."""
    with pytest.raises(errors.EmptyFile, match=r"^empty\.pdf: "):
        await anext(null.read(b"", name="empty.pdf"))


async def test_concurrent_documents_do_not_mix(null: reader.Reader) -> None:
    """Forty documents, good and bad, each get their own pages or their own error."""

    async def count(pages_wanted: int) -> int:
        source = drawn.numbered(pages_wanted) if pages_wanted else b"nonsense"
        return len([page async for page in null.read(source)])

    wanted = [number % 4 for number in range(40)]
    found = await asyncio.gather(*map(count, wanted), return_exceptions=True)

    for number, outcome in zip(wanted, found, strict=True):
        assert outcome == number if number else isinstance(outcome, errors.UnsupportedFile)


async def test_a_short_document_does_not_wait_for_a_long_one(
    null: reader.Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long documents use all processes; the short one is completed before them."""
    monkeypatch.setattr(child_pool, "SLOT_SECONDS", 0.0)
    long = [null.read(drawn.numbered(100)) for _ in range(2)]
    for source in long:
        await anext(source)
    tasks = [asyncio.create_task(_exhaust(source)) for source in long]
    await asyncio.sleep(0)
    assert [page.number async for page in null.read(drawn.numbered(2))] == [1, 2]
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_idle_consumer_does_not_block_other_documents(null: reader.Reader) -> None:
    """Only a few pages are read ahead; then the processes are free for other documents."""
    idle = [null.read(drawn.numbered(100)) for _ in range(3)]
    for source in idle:
        await anext(source)
    assert len([page async for page in null.read(drawn.numbered(20))]) == 20
    for source in idle:
        await source.aclose()


async def _exhaust(source: AsyncIterator[pages.ReadPage]) -> None:
    async for _ in source:
        pass


async def test_memory_does_not_grow_with_the_number_of_pages() -> None:
    """A document of 50 pages takes at most 1.2 times the memory of one of 10."""
    peaks = []
    async with reader.Reader(engine="null", processes=1) as made:
        for count in (10, 50):
            source = drawn.document(*["white"] * count, kind="PDF", size=(800, 800))
            assert len([page async for page in made.read(source)]) == count
            peaks.append(made.peak_memory)

    assert 0 < peaks[1] <= 1.2 * peaks[0]


class TestRemoteEngines:
    """Engines that need the network are called outside of the sandbox."""

    async def test_they_see_the_pixels_and_the_languages(self) -> None:
        """The child places their lines; the cost is part of the page."""
        async with reader.Reader(engine="fake-remote") as made:
            source = made.read(drawn.document("white", "refused"), languages=["deu"])
            first, second = [page async for page in source]

        assert (first.text, first.engine, first.usage.input_tokens) == (
            f"{WIDTH}x{HEIGHT} deu", "fake-remote", 1,
        )  # fmt: skip
        assert "page 2: the service will not read this page" in str(second.error)

    async def test_an_outage_is_raised(self) -> None:
        """An engine object is called in our own process, and its errors are raised."""
        async with reader.Reader(engine=fakes.FakeRemoteEngine()) as made:
            assert made.version == "1"
            with pytest.raises(errors.EngineUnavailable):
                await _exhaust(made.read(drawn.document("engine-away")))
