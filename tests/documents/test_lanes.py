"""Pictures of check jobs are read in a manner of their own: strictly, within limits, patiently."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
from PIL import Image

from pagewarden import errors, settings
from pagewarden.database import tables
from pagewarden.documents import claim, lanes
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.reader import LocalReader, make_engine_permit, open_local_reader
from pagewarden.ocr import limits
from pagewarden.ocr.engines import fakes
from pagewarden.ocr.pages import ReadPage, TextSource
from pagewarden.storage import scratch as scratch_storage
from tests.documents import readers, test_reader
from tests.documents.test_reader import scratch, store, tiff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from pagewarden.database import Database
    from pagewarden.ocr.reader import Reader
    from pagewarden.storage import FileStore

__all__ = ["scratch", "store"]

QUICK = lanes.LanePolicy(limits.Limits(pages=1, pixels=10_000), strict=True, pauses=(0, 0, 0))
CHECKS = {"check": QUICK}


async def drained(
    store: FileStore, desk: readers.Desk, content: bytes, engine: str = "fake"
) -> dict[str, int]:
    """Read one picture of lane check with an engine of the test's."""
    await test_reader.keep(store, desk, content, lane="check")
    options = ReadOptions(engine)
    async with open_local_reader(store, options=options, processes=1, policies=CHECKS) as reader:
        return await desk.drain(reader, lanes=["check"])


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize(
    ("content", "word", "category"),
    [
        (tiff(fakes.SHADES["damaged"]), "the page is damaged", "permanent"),
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

    version = "1"

    def __init__(self, *errors_: Exception, pages_before: int = 0) -> None:
        self._errors = list(errors_)
        self._before = pages_before
        self.asked: list[frozenset[int]] = []

    async def __aenter__(self) -> Self:
        """Start nothing."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop nothing."""

    async def read(
        self, _path: Path, *, skip: frozenset[int], on_open: Callable[[int], None], **_: object
    ) -> AsyncGenerator[ReadPage]:
        """Read what is not to be skipped, up to where the error is."""
        self.asked.append(skip)
        on_open(3)
        last = self._before if self._errors else 3
        for number in range(1, last + 1):
            if number not in skip:
                yield ReadPage(number, 9, 9, 72.0, TextSource.OCR)
        if self._errors:
            raise self._errors.pop(0)


class NoStore:
    """A file store whose files nobody looks into."""

    async def fetch(self, _path: str, _target: Path) -> None:
        """Fetch nothing."""


async def _numbers(
    trouble: Trouble, policy: lanes.LanePolicy, done: frozenset[int] = frozenset()
) -> list[int]:
    # Its own engine: a default engine without a key would be an outage.
    held = claim.Claim("id", "token", "name", "check", "/a.png", "tesseract", None, None, 1)
    with scratch_storage.open_private_folder() as folder:
        async with contextlib.AsyncExitStack() as resources:
            local = LocalReader(
                cast("FileStore", NoStore()),
                folder,
                resources,
                options=ReadOptions(),
                policies={"check": policy},
                make_reader=lambda *_: cast("Reader", trouble),
            )
            async with contextlib.aclosing(local.read(held, done)) as found:
                return [page.number async for page in found]


PASSING = [
    errors.ReadingTimedOut("too long"),
    errors.EngineUnavailable("away"),
    errors.InvalidEngineResponse("nonsense"),
    errors.RateLimited("slowly", retry_after=0.01),
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


async def test_a_service_is_given_the_time_that_it_asks_for() -> None:
    """If it wants more than an attempt may wait, the queue tries again later."""
    trouble = Trouble(errors.RateLimited("slowly", retry_after=3600))
    with pytest.raises(errors.RateLimited):
        await _numbers(trouble, QUICK)
    assert len(trouble.asked) == 1


@pytest.mark.parametrize("error", [errors.DamagedFile("broken"), errors.ApiKeyRejected("no")])
async def test_what_would_fail_again_is_not_tried_again(error: Exception) -> None:
    """Nor is anything, in lanes without patience."""
    trouble = Trouble(error)
    with pytest.raises(type(error)):
        await _numbers(trouble, QUICK)
    assert len(trouble.asked) == 1
    with pytest.raises(errors.EngineUnavailable):
        await _numbers(Trouble(errors.EngineUnavailable("away")), lanes.DEFAULT_POLICY)


def test_checks_are_read_as_the_settings_say() -> None:
    """Half a minute each time, again after 1, 2 and 4 seconds."""
    policy = lanes.policies_from_settings(
        settings.Settings(check_read_seconds=7, check_max_pixels=99)
    )["check"]

    assert (policy.limits.page_seconds, policy.limits.pixels, policy.limits.pages) == (7, 99, 1)
    assert (policy.strict, tuple(policy.pauses)) == (True, (1, 2, 4))
    assert settings.Settings().check_read_seconds == 30


async def test_calls_of_all_workers_share_one_limit(desk: readers.Desk) -> None:
    """Each takes the next place, from whatever thread it asks."""
    permit = make_engine_permit(desk.link, 0.01)
    assert permit is not None

    waits = [await asyncio.to_thread(permit, "gemini") for _ in range(3)]

    assert [round(wait / 100) for wait in waits] == [0, 1, 2]
    assert await asyncio.to_thread(permit, "other") == 0
    assert make_engine_permit(desk.link, None) is None


async def test_a_lane_is_completed_by_the_completer_that_it_names(
    desk: readers.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the lane is called: the attempt knows none of them."""
    seen = []

    async def complete(
        database: Database, held: claim.Claim, read: lanes.ReadingResult
    ) -> Mapping[str, Any]:
        seen.append((held.lane, read.saved_pages))
        return await lanes.complete_document(database, held, read)

    monkeypatch.setattr(lanes, "POLICIES", {"image": lanes.LanePolicy(complete=complete)})
    await desk.factory.queued()
    await desk.factory.queued(lane="pdf")

    assert await desk.drain(readers.Recorder(), lanes=["image", "pdf"]) == {"completed": 2}
    assert seen == [("image", 1)]
