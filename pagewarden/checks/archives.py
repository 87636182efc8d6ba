"""Zip archives as strangers send them: no more of one is read than is allowed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from pagewarden.checks import parcels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".zip"

# The record at the end of an archive, behind which only a comment may follow.
_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\5\6"
_LONGEST_COMMENT = 0xFFFF
# An end record in format ZIP64 has its locator right before the plain one.
_ZIP64_LOCATOR_MAGIC = b"PK\6\7"
_ZIP64_LOCATOR_BYTES = 20
# The fixed part of a directory entry; its name, extra fields and comment follow.
_ENTRY = struct.Struct("<28x3H12x")
# A name of usual length, with what usual programs add to it, takes far less.
_BYTES_OF_ENTRY = 1024
_CHUNK = 1 << 18
_ENCRYPTED = 0x1
_FOLDERS_OF_OTHERS = {"__MACOSX"}
_FILES_OF_OTHERS = {".DS_Store", "Thumbs.db", "desktop.ini"}
# Whatever zipfile raises for archives that are broken, or of a kind it does not know.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


def unpack(
    archive: parcels.File, folder: Path, limits: parcels.Limits, problems: parcels.Problems
) -> list[parcels.File]:
    """Unpack what is in an archive into files of a folder; problems says what is not taken."""
    try:
        with archive.path.open("rb") as file, _reading("the archive is truncated or damaged"):
            _require_few(file, limits)
            with zipfile.ZipFile(file) as opened:
                entries = list(_taken(opened, archive, limits, problems))
                return list(_unpacked(opened, entries, folder, problems))
    except parcels.WrongError as exc:
        problems.add(str(exc), archive.name)
    return []


@contextlib.contextmanager
def _reading(wrong: str) -> Iterator[None]:
    """Say that something is wrong with the archive, and not with us."""
    try:
        yield
    except _BROKEN as exc:
        raise parcels.WrongError(f"{wrong}; create it again") from exc
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # an offset that leads nowhere
            raise
        raise parcels.WrongError(f"{wrong}; create it again") from exc


def _require_few(file: BinaryIO, limits: parcels.Limits) -> None:
    """Count the entries, and refuse too many: zipfile would list them all, however many.

    Anything that readers of archives disagree about is refused.
    """
    size, end = _directory(file)
    if size > limits.entries * _BYTES_OF_ENTRY:
        raise _too_many(limits)
    file.seek(end - size)
    directory = file.read(size)
    at = count = 0
    while at < size:
        at += _ENTRY.size + sum(_ENTRY.unpack_from(directory, at))
        count += 1
        if count > limits.entries:
            raise _too_many(limits)


def _too_many(limits: parcels.Limits) -> parcels.WrongError:
    return parcels.WrongError(f"it has more than {limits.entries:,} entries; send several jobs")


def _directory(file: BinaryIO) -> tuple[int, int]:
    """Read the end record: how many bytes the list of entries has, and where it ends."""
    length = file.seek(0, os.SEEK_END)
    start = max(0, length - _ZIP64_LOCATOR_BYTES - _END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END_MAGIC)
    if at < 0 or at + _END.size > len(tail):
        raise parcels.WrongError("it is not a zip archive, or it is truncated; create it again")
    *_, size, _, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        raise parcels.WrongError("the end of the archive is ambiguous or damaged; create it again")
    if tail[:at][-_ZIP64_LOCATOR_BYTES:].startswith(_ZIP64_LOCATOR_MAGIC):
        raise parcels.WrongError("it has the format ZIP64; create a plain zip archive, or several")
    return size, start + at


def _taken(
    opened: zipfile.ZipFile,
    archive: parcels.File,
    limits: parcels.Limits,
    problems: parcels.Problems,
) -> Iterator[zipfile.ZipInfo]:
    """Pick the entries that may be read, and say what is wrong with the others."""
    total = 0
    for entry in opened.infolist():
        if _is_somebody_elses(entry):
            continue
        total += entry.file_size
        if problem := _problem(entry, limits):
            problems.add(problem, entry.filename)
        else:
            yield entry
    if total > limits.job_bytes:
        problems.add(
            f"it unpacks to {total:,} bytes of {limits.job_bytes:,} allowed; send several jobs",
            archive.name,
        )


def _is_somebody_elses(entry: zipfile.ZipInfo) -> bool:
    """Tell folders, and what file managers leave behind, from what was meant to be sent."""
    path = PurePosixPath(entry.filename)
    strewn = path.name in _FILES_OF_OTHERS or not _FOLDERS_OF_OTHERS.isdisjoint(path.parts)
    return entry.filename.endswith("/") or strewn  # is_dir() fails if there is no name


def _problem(entry: zipfile.ZipInfo, limits: parcels.Limits) -> str | None:
    if problem := parcels.problem_of_name(entry.filename):
        return problem
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted; make the archive without a password"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link; put the file itself into the archive"
    if entry.filename.lower().endswith(SUFFIX):
        return "it is an archive inside the archive; put the files themselves into it"
    if entry.file_size > limits.file_bytes:
        return f"it has {entry.file_size:,} bytes, and {limits.file_bytes:,} is the most"
    return None


def _unpacked(
    opened: zipfile.ZipFile,
    entries: list[zipfile.ZipInfo],
    folder: Path,
    problems: parcels.Problems,
) -> Iterator[parcels.File]:
    if problems.found:
        return  # nothing will be taken, so nothing has to be unpacked
    for number, entry in enumerate(entries):
        path = folder / f"entry-{number}"
        try:
            with _reading("it is damaged, or packed in a way that is not known"):
                _unpack_one(opened, entry, path)
        except parcels.WrongError as exc:
            problems.add(str(exc), entry.filename)
        else:
            yield parcels.File(unicodedata.normalize("NFC", entry.filename), path)


def _unpack_one(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> None:
    with opened.open(entry) as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK):  # never more than it said it has
            target.write(chunk)
