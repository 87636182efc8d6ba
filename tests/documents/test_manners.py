"""Pictures of check jobs are read in a manner of their own: strictly, within limits, patiently."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pagewarden import errors, settings
from pagewarden.database import tables
from pagewarden.documents import claims, manners, permits, store_reader
from pagewarden.reading import fakes, limits
from tests.documents import test_store_reader
from tests.documents.test_store_reader import scratch, store, tiff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pagewarden.files import FileStore
    from tests.documents import readers

__all__ = ["scratch", "store"]

QUICK = manners.Manners(limits.Limits(pages=1, pixels=10_000), strict=True, pauses=(0, 0, 0))
CHECKS = {"check": QUICK}


async def drained(
    store: FileStore, desk: readers.Desk, content: bytes, engine: str = "fake"
) -> dict[str, int]:
    """Read one picture of lane check with an engine of the test's."""
    await test_store_reader.keep(store, desk, content, lane="check")
    wishes = store_reader.Wishes(engine)
    async with store_reader.opened(store, wishes=wishes, processes=1, ways=CHECKS) as reader:
        return await desk.drain(reader, lanes=["check"])


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize(
    ("content", "word", "category"),
    [
        (tiff(fakes.SHADES["damaged"]), "the page is broken", "permanent"),
        (tiff(255, 255), "pages", "permanent"),
        (tiff(fakes.SHADES["crash"]), "", "resource"),
    ],
)
async def test_a_page_that_cannot_be_read_fails_its_picture_with_its_own_category(
    store: FileStore, desk: readers.Desk, content: bytes, word: str, category: str
) -> None:
    """It is not saved as a bad page of a document that is otherwise well."""
    assert await drained(store, desk, content) == {"failed": 1}

    (error,) = await desk.link.select(tables.ocr_errors)
    assert word in error["error_message"]
    assert error["error_category"] == category
    assert await desk.link.select(tables.ocr_pages) == []


@pytest.mark.usefixtures("scratch")
async def test_pixels_are_counted_by_the_limit_of_the_lane(
    store: FileStore, desk: readers.Desk
) -> None:
    """Beyond it the picture is refused before it is decoded."""
    file = io.BytesIO()
    Image.new("L", (101, 100), 255).save(file, "PNG")

    assert await drained(store, desk, file.getvalue()) == {"failed": 1}

    (error,) = await desk.link.select(tables.ocr_errors)
    assert "101 x 100 pixels" in error["error_message"]


class Trouble:
    """Reads pages, and ends in one error after another before it ends well."""

    def __init__(self, *errors_: Exception, pages_before: int = 0) -> None:
        self._errors = list(errors_)
        self._before = pages_before
        self.asked: list[frozenset[int]] = []

    async def read(self, known: frozenset[int]) -> AsyncGenerator[claims.Page]:
        """Read what is not known, up to where the error is."""
        self.asked.append(known)
        last = self._before if self._errors else 3
        for number in range(1, last + 1):
            if number not in known:
                yield claims.Page(number)
        if self._errors:
            raise self._errors.pop(0)


async def _numbers(trouble: Trouble, way: manners.Manners) -> list[int]:
    async with contextlib.aclosing(way.patiently(trouble.read)) as found:
        return [page.number async for page in found]


PASSING = [
    errors.ReadingTimedOut("too long"),
    errors.EngineAway("away"),
    errors.AnswerUnusable("nonsense"),
    errors.RateLimited("slowly", retry_after=1),
]


@pytest.mark.parametrize("error", PASSING)
async def test_what_failed_in_passing_is_read_again_three_times(error: Exception) -> None:
    """After that it is the attempt that failed."""
    trouble = Trouble(error, error, error)
    assert await _numbers(trouble, QUICK) == [1, 2, 3]
    assert len(trouble.asked) == 4

    trouble = Trouble(error, error, error, error)
    with pytest.raises(type(error)):
        await _numbers(trouble, QUICK)


async def test_pages_that_were_read_are_not_read_again() -> None:
    """Each comes once."""
    trouble = Trouble(PASSING[0], pages_before=2)

    assert await _numbers(trouble, QUICK) == [1, 2, 3]
    assert trouble.asked == [frozenset(), frozenset({1, 2})]


@pytest.mark.parametrize("error", [errors.DamagedFile("broken"), errors.KeyRefused("no")])
async def test_what_would_fail_again_is_not_tried_again(error: Exception) -> None:
    """Nor is anything, in lanes without patience."""
    trouble = Trouble(error)
    with pytest.raises(type(error)):
        await _numbers(trouble, QUICK)
    assert len(trouble.asked) == 1
    with pytest.raises(errors.EngineAway):
        await _numbers(Trouble(errors.EngineAway("away")), manners.USUAL)


def test_checks_are_read_as_the_settings_say() -> None:
    """Half a minute each time, again after 1, 2 and 4 seconds."""
    way = manners.of_lanes(settings.Settings(check_read_seconds=7, check_max_pixels=99))["check"]

    assert (way.limits.page_seconds, way.limits.pixels, way.limits.pages) == (7, 99, 1)
    assert (way.strict, tuple(way.pauses)) == (True, (1, 2, 4))
    assert settings.Settings().check_read_seconds == 30


async def test_calls_of_all_workers_share_one_limit(desk: readers.Desk) -> None:
    """Each takes the next place, from whatever thread it asks."""
    permit = permits.permit(desk.link, 0.01)
    assert permit is not None

    waits = [await asyncio.to_thread(permit, "gemini") for _ in range(3)]

    assert [round(wait / 100) for wait in waits] == [0, 1, 2]
    assert await asyncio.to_thread(permit, "other") == 0
    assert permits.permit(desk.link, None) is None
