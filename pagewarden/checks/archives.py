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
_IN_ZIP64 = 0xFFFFFFFF
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
        raise parcels.WrongError(f"{wrong}; make it anew") from exc
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # an offset that leads nowhere
            raise
        raise parcels.WrongError(f"{wrong}; make it anew") from exc


def _require_few(file: BinaryIO, limits: parcels.Limits) -> None:
    """Look at the end of the archive: zipfile would make a list of all entries, however many."""
    start = max(0, file.seek(0, os.SEEK_END) - _END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END_MAGIC)
    if at < 0 or at + _END.size > len(tail):
        raise parcels.WrongError("this is no zip archive, or one that was cut short; make it anew")
    *_, count, size, _, _ = _END.unpack_from(tail, at)
    if size == _IN_ZIP64:
        raise parcels.WrongError("it is in the format ZIP64, for huge archives; make several")
    if count > limits.entries or size > limits.entries * _BYTES_OF_ENTRY:
        raise parcels.WrongError(
            f"it has {count:,} entries, and {limits.entries:,} is the most; make several jobs"
        )


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
    return entry.is_dir() or strewn


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
