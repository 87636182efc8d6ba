"""The parts a worker is made of, each by itself."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import documents
from pagewarden.documents import batches, languages, read_pages
from pagewarden.files import scratch
from pagewarden.reading import pages

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
    numbers = asyncio.run(_taken(batches.of_pages(_handed_out(count)), naps))

    assert numbers == list(range(1, count + 1))


async def test_pages_that_came_meanwhile_are_handed_over_together() -> None:
    """And no more of them than may be lost by a crash."""
    found = batches.of_pages(_handed_out(100))
    async with contextlib.aclosing(found):
        first = await anext(found)
        for _ in range(200):
            await asyncio.sleep(0)
        second = await anext(found)
    assert 1 <= len(first) <= batches.AHEAD + 1
    assert 1 < len(second) <= batches.AHEAD + 1


async def test_an_error_comes_after_the_pages_before_it() -> None:
    """Nothing that was read is dropped."""
    seen: list[int] = []

    async def take() -> None:
        async for batch in batches.of_pages(_handed_out(5, ValueError("broken"))):
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

    async with contextlib.aclosing(batches.of_pages(endless())) as found:
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
    assert languages.for_engine(said) == engine
    assert languages.for_search(said) == search


# Pages --------------------------------------------------------------------------------------

_places = st.floats(0, 5000).map(lambda place: round(place, 1))
_shares = st.floats(0, 1).map(lambda share: round(share, 4))
_points = st.builds(pages.Point, _places, _places)
_quads = st.tuples(_points, _points, _points, _points)
_words = st.builds(pages.Word, st.text(), _quads, _shares)
_lines = st.builds(
    pages.Line, st.text(), _quads, _shares, st.lists(_words, max_size=3).map(tuple), st.integers(0)
)
_read = st.builds(
    pages.ReadPage,
    st.integers(1, 5000),
    st.integers(1, 9999),
    st.integers(1, 9999),
    st.floats(1, 1200),
    st.sampled_from([pages.Source.OCR, pages.Source.LAYER]),
    st.lists(_lines, max_size=3).map(tuple),
    st.sampled_from([0, 90, 180, 270]),
    st.floats(-45, 45),
    st.text(),
    st.builds(pages.Usage, st.integers(0), st.integers(0), st.floats(0, 10)),
)


@given(_read)
def test_a_page_that_was_saved_can_be_made_again(read: pages.ReadPage) -> None:
    """Exports of what is in the database need all of it."""
    assert read_pages.from_row(read_pages.to_page(read, of=9, language=None).as_json()) == read


def test_a_page_that_failed_without_a_word_gets_a_reason() -> None:
    """The database wants to know why, and of failed pages only."""
    failed = pages.ReadPage(1, 0, 0, 0.0, pages.Source.FAILED)
    saved = read_pages.to_page(failed, of=1, language=None)
    assert (saved.status, saved.error, saved.width) == ("failed", "it could not be read", None)


# The folder for files -----------------------------------------------------------------------


def test_the_folder_is_private_and_goes_with_its_user() -> None:
    """Whatever was put into it."""
    with scratch.folder() as place:
        assert place.stat().st_mode & 0o077 == 0
        (place / "file").write_bytes(b"secret")
    assert not place.exists()


def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's documents stay on the disk because a worker was killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living, its_place = _holder(tmp_path)
    killed, left_behind = _holder(tmp_path)
    with living, killed:
        killed.kill()
        killed.wait()
        assert left_behind.exists()
        with scratch.folder():
            assert not left_behind.exists()
            assert (its_place / "file").read_bytes() == b"secret"
    assert list(tmp_path.iterdir()) == []


def _holder(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has a folder with a file in it, until its input ends."""
    program = (
        "import sys; from pagewarden.files import scratch\n"
        "with scratch.folder() as place:\n"
        "    (place / 'file').write_bytes(b'secret'); print(place, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={"TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())
