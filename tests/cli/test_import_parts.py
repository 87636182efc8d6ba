"""What an import is made of: names, trees, files that rest, the journal."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors, storage
from pagewarden.cli.import_ import journal, run, scan
from tests.functions import house

FOLDER = Path("/home/ada/Letters")
LIMIT = 10_000

_parts = st.text(min_size=1, max_size=20).filter(
    lambda part: "/" not in part and "\0" not in part and part not in {".", ".."}
) | st.sampled_from(
    ["a", "a_", "_a", "__", "a__b", "a\\b", "a:b", "CON", "x" * 200, "a[0123456789ab]"]
)
_paths = st.lists(_parts, min_size=1, max_size=4).map(lambda parts: FOLDER.joinpath(*parts))


def found(path: Path, *, size: int = 1, mtime_ns: int = 1) -> scan.FoundFile:
    """Make a file that was found."""
    return scan.FoundFile(path, scan.FileStamp(size, mtime_ns))


@given(_paths, _paths)
def test_names_of_two_files_differ_and_are_fit_for_documents(one: Path, other: Path) -> None:
    """Whatever they are called, neither becomes a version of the other; the suffix is kept."""
    named = {path: journal.make_name(FOLDER, path) for path in (one, other)}
    named_apart = {path: journal.make_unique_name(FOLDER, path) for path in (one, other)}
    for name in (*named.values(), *named_apart.values()):
        assert storage.make_safe_name(name) == name
    assert len({*named.values(), *named_apart.values()}) == 2 * len({one, other})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("scan.pdf", "Letters__scan.pdf"),
        ("1921/May/scan.pdf", "Letters__1921__May__scan.pdf"),
        ("Müller & Söhne.pdf", "Letters__Müller & Söhne.pdf"),
    ],
)
def test_names_tell_the_folders(path: str, name: str) -> None:
    """As a person would write them down."""
    assert journal.make_name(FOLDER, FOLDER / path) == name


@pytest.mark.parametrize("path", ["a__b/c.pdf", "what?.pdf", "\udcff.pdf", "x" * 250 + ".pdf"])
def test_names_that_could_be_misread_are_marked(path: str) -> None:
    """They stay readable, and keep their suffix."""
    name = journal.make_name(FOLDER, FOLDER / path)
    assert name.startswith("Letters__")
    assert PurePath(name).suffix == ".pdf"
    assert name.endswith("].pdf")


def test_a_name_that_looks_marked_is_marked_itself() -> None:
    """So nobody can be given the marked name of another file."""
    marked = journal.make_name(FOLDER, FOLDER / "what?.pdf")
    pretender = FOLDER / marked.removeprefix("Letters__")
    assert journal.make_name(FOLDER, pretender) != marked


def walked(folder: Path, *patterns: str) -> dict[str, str]:
    """Go through a folder; say of each file why it was passed over."""
    found_there = scan.SourceTree(folder, patterns, LIMIT).walk()
    return {
        str(item.path.relative_to(folder)): item.reason.name
        if isinstance(item, scan.SkippedFile)
        else ""
        for item in found_there
    }


def test_a_tree_is_searched_without_what_nobody_means(tmp_path: Path) -> None:
    """Hidden, temporary, empty, too large, links and pipes are passed over, and named."""
    folder = tmp_path / "in"
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "secret.png").write_bytes(house.PNG)
    contents = {
        "b/deep.png": house.PNG, "a.png": house.PNG, ".hidden.png": house.PNG,
        ".git/x.png": house.PNG, "~$a.png": house.PNG, "a.png.part": house.PNG,
        "Thumbs.db": house.PNG, "empty.png": b"", "large.png": b"x" * (LIMIT + 1),
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "linked").symlink_to(outside)
    os.mkfifo(folder / "pipe.png")

    assert walked(folder) == {
        ".git": "HIDDEN", ".hidden.png": "HIDDEN", "Thumbs.db": "TEMPORARY", "a.png": "",
        "a.png.part": "TEMPORARY",
        "empty.png": "EMPTY", "large.png": "TOO_LARGE", "link.png": "LINK", "linked": "LINK",
        "pipe.png": "SPECIAL", "~$a.png": "TEMPORARY", "b/deep.png": "",
    }  # fmt: skip
    assert list(walked(folder))[-1] == "b/deep.png"


def test_patterns_choose_by_name_or_by_path(tmp_path: Path) -> None:
    """One with a slash is for the path; what fits is wanted whatever its type."""
    for name in ("a.png", "b/c.png", "b/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"words")
    assert [path for path, why in walked(tmp_path, "*.txt", "b/c*").items() if not why] == [
        "b/c.png",
        "b/d.txt",
    ]
    assert scan.SourceTree(tmp_path, ["*"], LIMIT).has_supported_type(tmp_path / "a.png")
    assert not scan.SourceTree(tmp_path, [], LIMIT).has_supported_type(tmp_path / "a.png")


def test_a_folder_that_is_gone_is_told_of(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    (item,) = scan.SourceTree(tmp_path / "none", [], LIMIT).walk()
    assert isinstance(item, scan.InaccessiblePath)
    assert item.why == "No such file or directory"


def test_a_file_rests_when_it_was_left_alone_for_long_enough() -> None:
    """By its own time, or by ours where its clock is wrong; every change begins anew."""
    resting = scan.StabilityTracker(3)
    path = FOLDER / "scan.pdf"
    ns = 1_000_000_000
    assert resting.is_stable(found(path, mtime_ns=97 * ns), now=0, wall_time=100)
    assert not resting.is_stable(found(path, mtime_ns=98 * ns), now=0, wall_time=100)
    ahead = found(path, mtime_ns=500 * ns)
    assert not resting.is_stable(ahead, now=1, wall_time=100)
    assert not resting.is_stable(ahead, now=3.9, wall_time=103)
    assert resting.is_stable(ahead, now=4, wall_time=103)
    grown = found(path, size=2, mtime_ns=500 * ns)
    assert not resting.is_stable(grown, now=5, wall_time=104)
    assert not resting.is_stable(found(path, size=3, mtime_ns=500 * ns), now=8, wall_time=107)


def test_a_failure_is_not_tried_again_for_nothing() -> None:
    """Only when the file has changed, or when it is time to try again."""
    file = found(FOLDER / "a.png")
    summary = run.ImportSummary()
    assert not summary.is_settled(file, now=0)
    summary.outcomes[file.path] = run.FileOutcome(run.FileResult.FAILED, file.stamp, "refused")
    assert summary.is_settled(file, now=1e9)
    assert not summary.is_settled(found(file.path, size=2), now=0)
    summary.outcomes[file.path] = run.FileOutcome(
        run.FileResult.FAILED, file.stamp, "away", retry_at=30
    )
    assert [summary.is_settled(file, now=now) for now in (29, 30)] == [True, False]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a journal is."""
    return tmp_path / "state" / "imports.sqlite3"


def test_the_journal_knows_a_file_that_has_arrived_as_it_was(place: Path) -> None:
    """Not one that is on its way, nor one that changed since, nor one of another case."""
    file = found(FOLDER / "a\udcff.png")
    with journal.open_journal("inbox", place) as known:
        entry = known.begin(FOLDER, file, "1" * 64)
        assert not known.has_uploaded(file)
        known.finish(entry, "id")
    with (
        journal.open_journal("inbox", place) as known,
        journal.open_journal("case", place) as other,
    ):
        assert known.has_uploaded(file)
        assert not known.has_uploaded(found(file.path, size=2))
        assert not other.has_uploaded(file)
        assert known.sample_documents(5) == ["id"]


def test_the_journal_recognises_bytes(place: Path) -> None:
    """A file that was only touched has arrived; one with other bytes keeps its name."""
    path = FOLDER / "a.png"
    with journal.open_journal("inbox", place) as known:
        first = known.begin(FOLDER, found(path), "1" * 64)
        known.finish(first, "id")
        touched = known.begin(FOLDER, found(path, mtime_ns=2), "1" * 64)
        assert (touched.document_id, known.has_uploaded(found(path, mtime_ns=2))) == ("id", True)
        changed = known.begin(FOLDER, found(path, size=2), "2" * 64)
        assert (changed.document_id, changed.name) == (None, first.name)


def test_a_name_belongs_to_one_file(place: Path, tmp_path: Path) -> None:
    """A folder of the same name elsewhere gets other names, and keeps them."""
    here, there = (tmp_path / part / "Scans" for part in ("here", "there"))
    for folder in (here, there):
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(folder.as_posix().encode())
    with journal.open_journal("inbox", place) as known:
        first = known.begin(here, found(here / "1.png"), "1" * 64)
        assert known.choose_name(there, there / "1.png") != first.name
        second = known.begin(there, found(there / "1.png"), "2" * 64)
        assert known.choose_name(there, there / "1.png") == second.name != first.name
        assert known.choose_name(here, here / "1.png") == first.name


def test_a_copy_is_a_file_of_its_own(place: Path, tmp_path: Path) -> None:
    """Its bytes are those of another, which is still there."""
    here, there = (tmp_path / part / "Scans" for part in ("here", "there"))
    for folder in (here, there):
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(house.PNG)
    with journal.open_journal("inbox", place) as known:
        known.finish(known.begin(here, found(here / "1.png"), "1" * 64), "id")
        copy = known.begin(there, found(there / "1.png"), "1" * 64)
        assert (copy.document_id, copy.name == "Scans__1.png") == (None, False)
        assert known.has_uploaded(found(here / "1.png"))


def test_a_file_that_was_moved_is_recognised(place: Path, tmp_path: Path) -> None:
    """With its folder, to another place: same name, same bytes, and nothing left behind."""
    here, there = (tmp_path / part / "Scans" for part in ("here", "there"))
    here.mkdir(parents=True)
    (here / "1.png").write_bytes(house.PNG)
    with journal.open_journal("inbox", place) as known:
        known.finish(known.begin(here, found(here / "1.png"), "1" * 64), "id")
        there.parent.mkdir()
        here.rename(there)
        moved = known.begin(there, found(there / "1.png"), "1" * 64)
        assert (moved.document_id, moved.name) == ("id", "Scans__1.png")
        assert known.get(here / "1.png") is None


def test_a_journal_that_cannot_be_used_is_named(place: Path) -> None:
    """Broken, or of a later version: it is left as it is."""
    place.parent.mkdir()
    place.write_bytes(b"nonsense" * 1000)
    with (
        pytest.raises(errors.LocalFileError, match=r"cannot use the journal .*imports\.sqlite3"),
        journal.open_journal("inbox", place),
    ):
        pass
    place.unlink()
    with sqlite3.connect(place) as later:
        later.execute("pragma user_version = 99")
    later.close()
    with (
        pytest.raises(errors.LocalFileError, match="another version"),
        journal.open_journal("inbox", place),
    ):
        pass
