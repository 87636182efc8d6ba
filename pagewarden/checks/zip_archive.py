"""Unpack untrusted zip archives within limits."""

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

from pagewarden.checks import submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".zip"

# The end record of an archive; only a comment may follow it.
_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\5\6"
_MAX_COMMENT_BYTES = 0xFFFF
# In a ZIP64 archive, the ZIP64 locator directly precedes the end record.
_ZIP64_LOCATOR_MAGIC = b"PK\6\7"
_ZIP64_LOCATOR_BYTES = 20
# The fixed part of a directory entry; its name, extra fields and comment follow.
_ENTRY = struct.Struct("<28x3H12x")
# An entry with a name of ordinary length and common extra fields takes far less.
_MAX_BYTES_PER_ENTRY = 1024
_CHUNK_BYTES = 1 << 18
_ENCRYPTED = 0x1
_METADATA_FOLDERS = {"__MACOSX"}
_METADATA_FILES = {".DS_Store", "Thumbs.db", "desktop.ini"}
# Everything zipfile raises for damaged or unsupported archives.
_ARCHIVE_ERRORS = (
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
    archive: submission.ReceivedFile,
    folder: Path,
    limits: submission.JobLimits,
    problems: submission.ProblemCollector,
) -> list[submission.ReceivedFile]:
    """Unpack an archive into files of a folder; add skipped entries to `problems`."""
    try:
        with (
            archive.path.open("rb") as file,
            _translate_errors("the archive is truncated or damaged"),
        ):
            _check_entry_count(file, limits)
            with zipfile.ZipFile(file) as zip_file:
                entries = list(_select_entries(zip_file, archive, limits, problems))
                return list(_unpack_entries(zip_file, entries, folder, problems))
    except submission.InvalidSubmission as exc:
        problems.add(str(exc), archive.name)
    return []


@contextlib.contextmanager
def _translate_errors(problem: str) -> Iterator[None]:
    """Raise errors of zipfile as InvalidSubmission."""
    try:
        yield
    except _ARCHIVE_ERRORS as exc:
        raise submission.InvalidSubmission(f"{problem}; create the archive again") from exc
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # EINVAL: an invalid offset in the archive
            raise
        raise submission.InvalidSubmission(f"{problem}; create the archive again") from exc


def _check_entry_count(file: BinaryIO, limits: submission.JobLimits) -> None:
    """Refuse archives with too many entries before zipfile loads them all.

    Archives that different programs would interpret differently are refused, too.
    """
    size, end = _find_directory(file)
    if size > limits.entries * _MAX_BYTES_PER_ENTRY:
        raise _too_many_entries_error(limits)
    file.seek(end - size)
    directory = file.read(size)
    at = count = 0
    while at < size:
        at += _ENTRY.size + sum(_ENTRY.unpack_from(directory, at))
        count += 1
        if count > limits.entries:
            raise _too_many_entries_error(limits)


def _too_many_entries_error(limits: submission.JobLimits) -> submission.InvalidSubmission:
    return submission.InvalidSubmission(
        f"the archive contains more than {limits.entries:,} entries; split it into several jobs"
    )


def _find_directory(file: BinaryIO) -> tuple[int, int]:
    """Return the size of the central directory and its end offset, from the end record."""
    length = file.seek(0, os.SEEK_END)
    start = max(0, length - _ZIP64_LOCATOR_BYTES - _END.size - _MAX_COMMENT_BYTES)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END_MAGIC)
    if at < 0 or at + _END.size > len(tail):
        raise submission.InvalidSubmission(
            "the file is not a zip archive, or is truncated; create the archive again"
        )
    *_, size, _, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        raise submission.InvalidSubmission(
            "the end of the archive is ambiguous or damaged; create the archive again"
        )
    if tail[:at][-_ZIP64_LOCATOR_BYTES:].startswith(_ZIP64_LOCATOR_MAGIC):
        raise submission.InvalidSubmission(
            "ZIP64 is not supported; create a zip archive without ZIP64, or several smaller ones"
        )
    return size, start + at


def _select_entries(
    zip_file: zipfile.ZipFile,
    archive: submission.ReceivedFile,
    limits: submission.JobLimits,
    problems: submission.ProblemCollector,
) -> Iterator[zipfile.ZipInfo]:
    """Yield the valid entries; add the others to `problems`."""
    total = 0
    for entry in zip_file.infolist():
        if _is_metadata(entry):
            continue
        total += entry.file_size
        if problem := _find_problem(entry, limits):
            problems.add(problem, entry.filename)
        else:
            yield entry
    if total > limits.job_bytes:
        problems.add(
            f"{total:,} unpacked bytes exceed the limit of {limits.job_bytes:,}; send several jobs",
            archive.name,
        )


def _is_metadata(entry: zipfile.ZipInfo) -> bool:
    """Tell whether an entry is a folder, or a file that file managers add."""
    path = PurePosixPath(entry.filename)
    added = path.name in _METADATA_FILES or not _METADATA_FOLDERS.isdisjoint(path.parts)
    return entry.filename.endswith("/") or added  # is_dir() fails on an empty name


def _find_problem(entry: zipfile.ZipInfo, limits: submission.JobLimits) -> str | None:
    if problem := submission.find_name_problem(entry.filename):
        return problem
    if entry.flag_bits & _ENCRYPTED:
        return "the file is encrypted; create the archive without a password"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "the entry is a link; add the file itself to the archive"
    if entry.filename.lower().endswith(SUFFIX):
        return "nested archives are not supported; add the files themselves"
    if entry.file_size > limits.file_bytes:
        return f"{entry.file_size:,} bytes exceed the limit of {limits.file_bytes:,}"
    return None


def _unpack_entries(
    zip_file: zipfile.ZipFile,
    entries: list[zipfile.ZipInfo],
    folder: Path,
    problems: submission.ProblemCollector,
) -> Iterator[submission.ReceivedFile]:
    if problems.found:
        return  # the job will be refused
    for number, entry in enumerate(entries):
        path = folder / f"entry-{number}"
        try:
            with _translate_errors("the file is damaged, or its compression is not supported"):
                _unpack_entry(zip_file, entry, path)
        except submission.InvalidSubmission as exc:
            problems.add(str(exc), entry.filename)
        else:
            yield submission.ReceivedFile(unicodedata.normalize("NFC", entry.filename), path)


def _unpack_entry(zip_file: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> None:
    with zip_file.open(entry) as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK_BYTES):  # zipfile stops at the declared size
            target.write(chunk)
