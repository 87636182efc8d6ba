"""What is sent to be checked is taken as a whole, or refused with all that is wrong."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.checks import submission, zip_archive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


LIMITS = submission.JobLimits(images=5, file_bytes=10_000, job_bytes=30_000)
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 50
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 50
FRENCH = submission.SubmissionOptions(language="fr")


def zipped(entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def unpacked(
    folder: Path, data: bytes, limits: submission.JobLimits = LIMITS
) -> tuple[dict[str, bytes], list[errors.Problem]]:
    """Unpack an archive, and say what came of it."""
    path = folder / "archive"
    path.write_bytes(data)
    problems = submission.ProblemCollector()
    found = zip_archive.unpack(submission.ReceivedFile("all.zip", path), folder, limits, problems)
    return {file.name: file.path.read_bytes() for file in found}, problems.found


def ordered(
    folder: Path, entries: Mapping[str, bytes], options: submission.SubmissionOptions = FRENCH
) -> submission.Submission:
    """Put a job together from files."""
    files = []
    for number, (name, data) in enumerate(entries.items()):
        path = folder / str(number)
        path.write_bytes(data)
        files.append(submission.ReceivedFile(name, path))
    return submission.validate_submission(files, options, LIMITS, submission.ProblemCollector())


def refusal(
    folder: Path, entries: Mapping[str, bytes], options: submission.SubmissionOptions = FRENCH
) -> list[tuple[str | None, str]]:
    """Say what is wrong with a job, by file."""
    with pytest.raises(errors.RequestRejected) as caught:
        ordered(folder, entries, options)
    return [(one.image, one.problem) for one in caught.value.problems]


def test_an_archive_is_unpacked_without_what_file_managers_add(tmp_path: Path) -> None:
    """Folders, and files that nobody meant to send, are passed over."""
    entries = {"fr/a.png": PNG, "fr/a.txt": b"Bonjour", "fr/": b""}
    strewn = {"__MACOSX/fr/._a.png": b"x", "fr/.DS_Store": b"x", "Thumbs.db": b"x"}

    found, problems = unpacked(tmp_path, zipped(entries | strewn))

    assert problems == []
    assert found == {"fr/a.png": PNG, "fr/a.txt": b"Bonjour"}


@pytest.mark.parametrize(
    "name", ["../a.png", "fr/../../a.png", "/etc/a.png", "C:/a.png", "..\\a.png", "a\n.png"]
)
def test_names_that_lead_out_of_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing of them is written anywhere."""
    found, problems = unpacked(tmp_path, zipped({name: PNG}))

    assert found == {}
    assert len(problems) == 1
    assert not (tmp_path.parent / "a.png").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """One large file, and many that are large together."""
    one = zipped({"a.png": b"\0" * 1_000_000})
    many = zipped({f"{n}.png": bytes([n]) * 9_999 for n in range(4)})

    found, problems = unpacked(tmp_path, one)
    assert (found, [problem.image for problem in problems]) == ({}, ["a.png", "all.zip"])
    found, problems = unpacked(tmp_path, many)
    assert found == {}
    assert "39,996 unpacked bytes" in problems[0].problem


def test_an_archive_that_lies_about_its_sizes_is_not_believed(tmp_path: Path) -> None:
    """What unpacks to more than was announced ends where it was announced, and is damaged."""
    data = bytearray(zipped({"a.png": b"\0" * 9_000}))
    for magic, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", data, data.index(magic) + at, 100)

    found, problems = unpacked(tmp_path, bytes(data))

    assert found == {}
    assert [problem.image for problem in problems] == ["a.png"]


def test_links_archives_in_archives_and_encrypted_files_are_refused(tmp_path: Path) -> None:
    """Each is named with what to do."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        link = zipfile.ZipInfo("link.png")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("inner.zip", zipped({"a.png": PNG}))
        archive.writestr("secret.png", PNG)
    data = bytearray(file.getvalue())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.rindex(magic) + at
        struct.pack_into("<H", data, place, data[place] | 1)

    found, problems = unpacked(tmp_path, bytes(data))

    assert found == {}
    words = {problem.image: problem.problem for problem in problems}
    assert "link" in words["link.png"]
    assert "nested" in words["inner.zip"]
    assert "encrypted" in words["secret.png"]


@pytest.mark.parametrize("cut", [3, 40, -30])
def test_a_truncated_archive_is_said_to_be(tmp_path: Path, cut: int) -> None:
    """Wherever it was cut."""
    found, problems = unpacked(tmp_path, zipped({"a.png": PNG})[:cut])

    assert found == {}
    assert "create the archive again" in problems[0].problem


def test_ten_thousand_entries_are_not_even_listed(tmp_path: Path) -> None:
    """The list is refused by its size."""
    entries = {f"{n}.png": b"" for n in range(10_000)}

    found, problems = unpacked(tmp_path, zipped(entries, zipfile.ZIP_STORED))

    assert found == {}
    assert "more than 20 entries" in problems[0].problem


def announcing(data: bytes, count: int) -> bytearray:
    """Have the end record of an archive announce another number of entries."""
    changed = bytearray(data)
    struct.pack_into("<2H", changed, changed.rindex(b"PK\5\6") + 8, count, count)
    return changed


def test_entries_are_counted_and_not_believed(tmp_path: Path) -> None:
    """The end record may announce fewer entries than the directory lists."""
    entries = {f"{n}.png": b"" for n in range(21)}

    found, problems = unpacked(tmp_path, bytes(announcing(zipped(entries), count=1)))

    assert found == {}
    assert "more than 20 entries" in problems[0].problem


@pytest.mark.parametrize("count", [1, 0xFFFF])
def test_a_zip64_record_does_not_replace_the_limit(tmp_path: Path, count: int) -> None:
    """The reader prefers it to the end record, whatever that one announces."""
    data = announcing(zipped({f"{n}.png": b"" for n in range(500)}, zipfile.ZIP_STORED), count)
    end = data.rindex(b"PK\5\6")
    size, offset = struct.unpack_from("<2L", data, end + 12)
    struct.pack_into("<L", data, end + 12, 46)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 500, 500, size, offset)
    data[end:end] = record + struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.infolist()) == 500
    limits = submission.JobLimits(images=40_000, file_bytes=10_000, job_bytes=30_000)

    for allowed in (LIMITS, limits):
        found, problems = unpacked(tmp_path, bytes(data), allowed)
        assert found == {}
        assert "ZIP64" in problems[0].problem


def test_an_end_record_inside_a_comment_is_refused(tmp_path: Path) -> None:
    """Readers of archives disagree which of the two counts, so neither does."""
    comment = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 47, 0, 0) + b" and more"
    file = io.BytesIO(zipped({"a.png": PNG}))
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = comment

    found, problems = unpacked(tmp_path, file.getvalue())

    assert found == {}
    assert [problem.image for problem in problems] == ["all.zip"]


def test_an_entry_without_a_name_is_a_problem(tmp_path: Path) -> None:
    """ZipInfo.is_dir() raises an IndexError for it."""
    nameless = zipped({"a": PNG}).replace(b"aPK\5\6", b"\0PK\5\6")

    found, problems = unpacked(tmp_path, nameless)

    assert found == {}
    assert "a file name must be 1 to" in problems[0].problem


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_broken_archive_is_a_problem_and_never_an_error(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Whatever bytes are changed, it is unpacked as far as is allowed, or said to be damaged."""
    whole = bytearray(zipped({"a.png": PNG * 20, "a.txt": b"Bonjour", "b.png": JPEG}))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))

    found, _ = unpacked(tmp_path, bytes(whole))

    assert sum(map(len, found.values())) <= LIMITS.job_bytes


def test_strings_come_from_texts_lists_and_what_is_said(tmp_path: Path) -> None:
    """A list goes before a text of the same name, and that before what is for all."""
    entries = {
        "fr/a.png": PNG,
        "fr/a.txt": b"Bonjour\nMerci\n",
        "b.jpg": JPEG,
        "c.png": PNG + b"1",
        "references.json": b'{"b.jpg": ["Salut"]}',
    }
    options = submission.SubmissionOptions(language="fr-CA", reference="Au revoir")

    made = ordered(tmp_path, entries, options)

    assert {one.name: one.reference for one in made.pictures} == {
        "fr/a.png": ["Bonjour", "Merci"],
        "b.jpg": ["Salut"],
        "c.png": ["Au revoir"],
    }
    assert [one.kind for one in made.pictures] == ["png", "jpeg", "png"]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Not one thing at a time."""
    entries = {
        "a.png": b"no picture at all",
        "b.pdf": b"%PDF-1.7 x",
        "c.png": b"",
        "d.png": PNG + b"\0" * 10_000,
        "lonely.txt": b"Bonjour",
    }
    options = submission.SubmissionOptions(
        language="klingon", engine="crystal ball", references_required=True
    )

    found = refusal(tmp_path, entries, options)

    assert {image for image, _ in found} == {None, *entries}
    said = " ".join(problem for _, problem in found)
    for word in ("klingon", "crystal ball", "plain text", "a PDF", "empty", "10,058 bytes"):
        assert word in said
    assert sum("references are required" in problem for _, problem in found) == 4


def test_too_many_pictures_and_none_are_refused(tmp_path: Path) -> None:
    """Their number is said, and the most there may be."""
    many = {f"{n}.png": PNG + bytes([n]) for n in range(6)}

    assert "6 pictures exceed the limit of 5" in refusal(tmp_path, many)[0][1]
    assert "the job has no pictures" in refusal(tmp_path, {})[0][1]


def test_names_are_counted_in_one_pass(tmp_path: Path) -> None:
    """However many files share a name, each is looked at once."""

    class CountedName(str):
        __slots__ = ()
        comparisons = 0

        def __eq__(self, other: object) -> bool:
            CountedName.comparisons += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    path = tmp_path / "picture"
    path.write_bytes(PNG)
    files = [submission.ReceivedFile(CountedName(f"{n}.png"), path) for n in range(300)]
    files += [
        submission.ReceivedFile(CountedName(f"{n}/references.json"), path) for n in range(300)
    ]

    with pytest.raises(errors.RequestRejected):
        submission.validate_submission(files, FRENCH, LIMITS, submission.ProblemCollector())

    assert CountedName.comparisons < 10 * len(files)


def test_references_for_other_pictures_are_a_mistake(tmp_path: Path) -> None:
    """So are two lists, and one that cannot be read."""
    lists = {"references.json": b'{"x.png": "Bonjour"}'}
    assert "the references are for x.png" in refusal(tmp_path, {"a.png": PNG} | lists)[0][1]
    both = lists | {"references.csv": b"image,text\na.png,Bonjour\n"}
    assert "more than one reference file" in refusal(tmp_path, {"a.png": PNG} | both)[0][1]
    broken = {"references.json": b"{"}
    assert "invalid JSON" in refusal(tmp_path, {"a.png": PNG} | broken)[0][1]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_text_that_cannot_be_stored_is_refused(tmp_path: Path, text: str) -> None:
    """Wherever it stands."""
    for options in (
        submission.SubmissionOptions("fr", by_name={"a.png": text}),
        submission.SubmissionOptions("fr", allowed=[text]),
        submission.SubmissionOptions("fr", title=text),
    ):
        assert len(refusal(tmp_path, {"a.png": PNG}, options)) == 1


def test_the_digest_tells_orders_apart(tmp_path: Path) -> None:
    """The same files and options have the same one."""
    first, same = (ordered(tmp_path, {"a.png": PNG}) for _ in range(2))
    assert first.digest == same.digest
    others = [
        ordered(tmp_path, {"b.png": PNG}),
        ordered(tmp_path, {"a.png": PNG + b"1"}),
        ordered(tmp_path, {"a.png": PNG}, submission.SubmissionOptions("de")),
        ordered(tmp_path, {"a.png": PNG}, submission.SubmissionOptions("fr", allowed=["Acme"])),
        ordered(tmp_path, {"a.png": PNG}, submission.SubmissionOptions("fr", reference="Bonjour")),
    ]
    assert len({first.digest, *(one.digest for one in others)}) == 6
