"""The parts a worker is made of, each by itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import documents
from pagewarden.documents import attempt, pages
from pagewarden.ocr import languages
from pagewarden.ocr.pages import Line, Point, ReadPage, TextSource, Usage, Word

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable


# Batches ------------------------------------------------------------------------------------


async def _handed_out(count: int, error: Exception | None = None) -> AsyncGenerator[documents.Page]:
    for number in range(1, count + 1):
        yield documents.Page(number)
    if error is not None:
        raise error


async def _taken(found: AsyncGenerator[list[documents.Page]], naps: Iterable[int]) -> list[int]:
    """Take all batches, with a pause of so many turns of the loop after each."""
    numbers: list[int] = []
    pauses = iter(naps)
    async with contextlib.aclosing(found):
        async for batch in found:
            assert batch
            numbers += [page.number for page in batch]
            for _ in range(next(pauses, 0)):
                await asyncio.sleep(0)
    return numbers


@given(st.integers(0, 60), st.lists(st.integers(0, 40), max_size=60))
def test_every_page_is_handed_over_once_and_in_order(count: int, naps: list[int]) -> None:
    """However slow or quick the taker is."""
    numbers = asyncio.run(_taken(attempt.buffer_pages(_handed_out(count)), naps))

    assert numbers == list(range(1, count + 1))


async def test_pages_that_came_meanwhile_are_handed_over_together() -> None:
    """And no more of them than may be lost by a crash."""
    found = attempt.buffer_pages(_handed_out(100))
    async with contextlib.aclosing(found):
        first = await anext(found)
        for _ in range(200):
            await asyncio.sleep(0)
        second = await anext(found)
    assert 1 <= len(first) <= attempt.MAX_UNSAVED_PAGES + 1
    assert 1 < len(second) <= attempt.MAX_UNSAVED_PAGES + 1


async def test_an_error_comes_after_the_pages_before_it() -> None:
    """Nothing that was read is dropped."""
    seen: list[int] = []

    async def take() -> None:
        async for batch in attempt.buffer_pages(_handed_out(5, ValueError("broken"))):
            seen.extend(page.number for page in batch)

    with pytest.raises(ValueError, match="broken"):
        await take()
    assert seen == [1, 2, 3, 4, 5]


async def test_whoever_stops_taking_stops_the_reading() -> None:
    """The source is closed, wherever it was."""
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[documents.Page]:
        try:
            while True:
                yield documents.Page(1)
        finally:
            closed.set()

    async with contextlib.aclosing(attempt.buffer_pages(endless())) as found:
        await anext(found)
    assert closed.is_set()


# Languages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "engine", "search"),
    [
        (None, (), None),
        ("  ", (), None),
        ("deu", ("deu",), "de"),
        ("fr-CA", ("fra",), "fr"),
        ("EN_us", ("eng",), "en"),
        ("de, fr", ("deu", "fra"), "de"),
        ("deu+frk", ("deu", "frk"), "de"),
        ("chi_sim", ("chi_sim",), "zh"),
        ("zh-Hant", ("zho",), "zh"),
        ("french", ("french",), "french"),
        ("tlh", ("tlh",), "tlh"),
    ],
)
def test_languages_are_called_as_engines_and_as_the_search_call_them(
    said: str | None, engine: tuple[str, ...], search: str | None
) -> None:
    """Whatever people call them; what nobody knows stays as it is."""
    assert languages.to_engine_codes(said) == engine
    assert languages.to_search_code(said) == search


# Pages --------------------------------------------------------------------------------------

_places = st.floats(0, 5000).map(lambda place: round(place, 1))
_shares = st.floats(0, 1).map(lambda share: round(share, 4))
_points = st.builds(Point, _places, _places)
_quads = st.tuples(_points, _points, _points, _points)
_words = st.builds(Word, st.text(), _quads, _shares)
_lines = st.builds(
    Line, st.text(), _quads, _shares, st.lists(_words, max_size=3).map(tuple), st.integers(0)
)
_read = st.builds(
    ReadPage,
    st.integers(1, 5000),
    st.integers(1, 9999),
    st.integers(1, 9999),
    st.floats(1, 1200),
    st.sampled_from([TextSource.OCR, TextSource.LAYER]),
    st.lists(_lines, max_size=3).map(tuple),
    st.sampled_from([0, 90, 180, 270]),
    st.floats(-45, 45),
    st.text(),
    st.builds(Usage, st.integers(0), st.integers(0), st.floats(0, 10)),
)


@given(_read)
def test_a_page_that_was_saved_can_be_made_again(read: ReadPage) -> None:
    """Exports of what is in the database need all of it."""
    assert pages.parse_row(pages.to_saved_page(read, page_count=9, language=None).as_json()) == read


def test_a_page_that_failed_without_a_word_gets_a_reason() -> None:
    """The database wants to know why, and of failed pages only."""
    failed = ReadPage(1, 0, 0, 0.0, TextSource.FAILED)
    saved = pages.to_saved_page(failed, page_count=1, language=None)
    assert (saved.status, saved.error, saved.width) == (
        "failed",
        "the page could not be read",
        None,
    )
