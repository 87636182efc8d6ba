"""Publishing: whole or not at all, by the owner only, and the same bytes from every run."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors, settings
from pagewarden.volumes import artifacts, stages
from pagewarden.volumes.artifacts import parquet, publish, rows
from tests.ocr import printed
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path


class Fence:
    """Lets the first few ask, and then nobody."""

    def __init__(self, allowed: int) -> None:
        self.asked = 0
        self._allowed = allowed

    async def __call__(self) -> None:
        """Answer."""
        self.asked += 1
        if self.asked > self._allowed:
            raise errors.LockLost("somebody else owns the task")


async def test_two_runs_make_the_same_bytes(finished: books.Book, tmp_path: Path) -> None:
    """Images, Parquet files, ids of lines: whoever did it, and whenever."""
    again = replace(finished, root=tmp_path / "again")
    shutil.copytree(finished.originals, again.originals)
    await again.with_config(processes=2).run(*stages.STAGES, token="somebody-else")
    assert again.digests() == finished.digests()


@pytest.mark.parametrize("stage", books.PARQUET)
async def test_what_is_done_already_is_skipped(copied: books.Book, stage: str) -> None:
    """For the same input, config and model; nothing is written."""
    before = _times(copied)
    done = await copied.run(stage, may_publish=Fence(0), token="another")
    assert (done.skipped, done.pages, done.failed_pages) == (True, 3, 0)
    assert _times(copied) == before


@pytest.mark.parametrize("stage", books.PARQUET)
async def test_what_is_done_already_is_done_again_for_who_insists(
    copied: books.Book, stage: str
) -> None:
    """And the result is the same."""
    before = copied.digests()
    fence = Fence(9)
    assert not (await copied.run(stage, force=True, may_publish=fence)).skipped
    assert fence.asked
    assert copied.digests() == before


@pytest.mark.parametrize("stage", books.PARQUET)
async def test_what_is_not_whole_is_done_again(copied: books.Book, stage: str) -> None:
    """A file cut short, and one image missing or exchanged."""
    before = copied.digests()
    path = copied.artifacts / stage / books.PARQUET[stage]
    path.write_bytes(path.read_bytes()[:-9])
    assert not (await copied.run(stage)).skipped
    assert copied.digests() == before
    for image in sorted((copied.artifacts / stage).rglob("*.jpg"))[:1]:
        image.unlink()
        assert not (await copied.run(stage)).skipped
        assert copied.digests() == before


async def test_what_is_done_again_counts_failed_pages_once(book: books.Book) -> None:
    """Those of the file that was not whole are not those of the new one."""
    (book.originals / "page2.png").write_bytes(b"no image")
    lenient = book.with_config(failed_pages_allowed=0.4)
    await lenient.run("line_detection")
    (book.artifacts / "line_detection" / "rotated_images" / "page3.jpg").unlink()
    done = await lenient.run("line_detection")
    assert (done.skipped, done.failed_pages) == (False, 1)


async def test_another_input_is_done_again(copied: books.Book) -> None:
    """One page was scanned anew."""
    copied.add("page2.png", ["An entirely different page it is."])
    for stage in books.PARQUET:
        assert not (await copied.run(stage)).skipped
    assert "An entirely different page it is." in books.text_of(copied.texts())


async def test_another_config_is_done_again_and_so_is_what_depends_on_it(
    copied: books.Book,
) -> None:
    """What does not depend on it is not."""
    other = copied.with_config(k_factor=3.0)
    assert (await other.run("line_detection")).skipped
    assert not (await other.run("line_extraction")).skipped
    assert not (await other.run("ocr")).skipped


async def test_a_stricter_config_judges_what_is_there(book: books.Book) -> None:
    """A page failed, and now none may."""
    (book.originals / "page2.png").write_bytes(b"no image")
    await book.with_config(failed_pages_allowed=0.5).run("line_detection")
    with pytest.raises(
        errors.UnsupportedFile, match="1 of 3 pages failed, more than the allowed 0%"
    ):
        await book.with_config(failed_pages_allowed=0.0).run("line_detection")


@pytest.mark.parametrize("stage", books.PARQUET)
async def test_whoever_lost_the_task_publishes_nothing(copied: books.Book, stage: str) -> None:
    """What was there before is untouched, and nothing is left of the attempt."""
    before = copied.digests()
    other = copied.with_config(k_factor=3.0, use_tps=True, engine="null")
    with pytest.raises(errors.LockLost):
        await other.run(stage, may_publish=Fence(0))
    assert copied.digests() == before


async def test_whoever_loses_the_task_among_the_images_leaves_nothing_that_looks_whole(
    tmp_path: Path,
) -> None:
    """The next owner does it again, and the result is that of an undisturbed run."""
    book = books.make(tmp_path, [[*printed.ENGLISH, *printed.ENGLISH]])
    both = "line_detection", "line_extraction"
    await book.run(*both)
    undisturbed = book.digests()
    other = book.with_config(k_factor=3.0, use_tps=True, tps_ratio=0.001)
    for stage in both:
        with pytest.raises(errors.LockLost):
            await other.run(stage, may_publish=Fence(1))
        assert book.digests() != undisturbed
        assert not (await book.run(stage)).skipped
        assert book.digests() == undisturbed


async def test_results_of_two_owners_are_never_taken_for_one(copied: books.Book) -> None:
    """A late owner's images under the new owner's file are noticed by whoever uses them."""
    late = copied.with_config(k_factor=3.5)
    late_images = replace(late, root=copied.root.parent / "late")
    shutil.copytree(copied.root, late_images.root)
    await late_images.run("line_extraction")
    lines = "line_extraction/lines/page3_1.jpg"
    shutil.copyfile(late_images.artifacts / lines, copied.artifacts / lines)
    with pytest.raises(errors.InvalidArtifact, match=r"page3_1.jpg.*is from another run"):
        await copied.with_config(engine="null").run("ocr")


@given(turns=st.lists(st.booleans(), min_size=8, max_size=8), stopped=st.integers(0, 8))
def test_however_two_owners_get_in_each_other_s_way_nobody_sees_a_mixture(
    turns: list[bool], stopped: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither fence nor lock is asked here: what can be read is of one owner, or is refused."""
    root = tmp_path_factory.mktemp("owners")
    bucket = artifacts.open_bucket(str(root / "output"), settings.Settings())
    asyncio.run(_interleave(bucket, root, turns, stopped))


async def _interleave(
    bucket: artifacts.Bucket, root: Path, turns: list[bool], stopped: int
) -> None:
    owners = {name: _steps(root / name, name) for name in ("one", "two")}
    for first in turns[:stopped]:
        mine, other = ("one", "two") if first else ("two", "one")
        steps = owners[mine] or owners[other]
        if steps:
            await bucket.publish(*steps.pop(0))
        await _see(bucket, root)


def _steps(folder: Path, owner: str) -> list[tuple[Path, str]]:
    """Make what an owner publishes, one after the other: three images and their file."""
    folder.mkdir()
    stamp = parquet.Stamp("line_detection", "input", owner, "model", 3)
    draft = parquet.ParquetWriter(folder / "f", parquet.LINE_DETECTION, stamp)
    for number in range(3):
        data = f"{owner} {number}".encode()
        (folder / str(number)).write_bytes(data)
        draft.add(
            rows.DetectedPage(
                image_name=str(number),
                rotated_image_path=f"{number}.jpg",
                rotated_image_sha256=publish.compute_sha256(data),
            )
        )
    draft.close()
    return [*((folder / str(n), f"{n}.jpg") for n in range(3)), (folder / "f", "f.parquet")]


async def _see(bucket: artifacts.Bucket, root: Path) -> None:
    scratch = root / "seen"
    scratch.mkdir(exist_ok=True)
    for path in scratch.iterdir():
        path.unlink()
    try:
        async with publish.open_parquet(
            bucket, parquet.LINE_DETECTION, "f.parquet", scratch
        ) as found:
            images = [await publish.fetch_image(bucket, row.image, "f") for row in found]
            assert images == [f"{found.stamp.config} {n}".encode() for n in range(3)]
    except (errors.FileNotFound, errors.InvalidArtifact):
        pass


async def test_the_owner_is_asked_between_many_images(copied: books.Book, tmp_path: Path) -> None:
    """A publication may take longer than a lock lasts; the Parquet file comes last."""
    count = 2 * publish.IMAGES_PER_CHECK + 1
    stamp = parquet.Stamp("line_detection", "", "", "", 1)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    bucket, fence = copied.work().output, Fence(2)
    draft = publish.ArtifactDraft(scratch, parquet.LINE_DETECTION, stamp)
    await draft.add(
        [rows.DetectedPage(image_name="p")], {f"new/{n}.jpg": b"x" for n in range(count)}
    )
    with pytest.raises(errors.LockLost):
        await draft.publish(bucket, "new/f.parquet", fence)
    found = [entry.key async for entry in bucket.list("new")]
    assert fence.asked == 3
    assert len(found) == 2 * publish.IMAGES_PER_CHECK
    assert "new/f.parquet" not in found


async def test_a_stage_that_is_stopped_leaves_nothing_behind(copied: books.Book) -> None:
    """Neither in the bucket, nor as a process."""
    before = copied.digests()
    under_way = asyncio.Event()
    other = copied.with_config(engine="fake-steady", processes=1)
    running = asyncio.create_task(
        other.run("ocr", progress=lambda *_: under_way.set(), may_publish=Fence(0))
    )
    await under_way.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert copied.digests() == before


async def test_artifacts_of_a_killed_worker_are_cleared_away(copied: books.Book) -> None:
    """By the next run that works in the same bucket."""
    left = copied.root / "output" / ".unpublished" / "pagewarden-files-dead-abc"
    left.mkdir(parents=True)
    (left / "in-use").touch()
    (left / "0.jpg").write_bytes(b"half")
    await copied.run("line_extraction")
    assert not left.exists()


def _times(book: books.Book) -> dict[str, int]:
    return {
        str(path): path.stat().st_mtime_ns for path in book.artifacts.rglob("*") if path.is_file()
    }
