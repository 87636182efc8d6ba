"""SQLite journal of imported files, so that an interrupted import can resume; document names.

Documents of the same name in a case are versions of each other, so each file needs its own name.
The name is made of the folders that contain the file.

SQLite rather than a log file: it looks up one of a million files without reading all of them,
ignores partial writes, and serves concurrent imports.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import sqlite3
import threading
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pagewarden import errors, storage
from pagewarden.cli.import_ import scan
from pagewarden.storage import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

SEPARATOR = "__"

_DIGITS = 12
_WITH_HASH = re.compile(rf"\[[0-9a-f]{{{_DIGITS}}}\](\.[^.]*)?\Z")
_MAX_SUFFIX_BYTES = 16


def make_name(folder: Path, path: Path) -> str:
    """Name a file after the imported folder and its subfolders, as in Letters__1921__a.pdf.

    Add a hash if that name is ambiguous or invalid.
    """
    parts = tuple(part for part in (folder.name, *path.relative_to(folder).parts) if part)
    joined = SEPARATOR.join(parts)
    if _is_unambiguous(joined, parts):
        return joined
    return _add_hash(joined, os.fsencode("/".join(parts)))


def make_unique_name(folder: Path, path: Path) -> str:
    """Name a file whose regular name belongs to another file."""
    return _add_hash(make_name(folder, path), os.fsencode(path))


def _is_unambiguous(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether the name can be split into its parts, is valid, and has no hash."""
    return (
        tuple(name.split(SEPARATOR)) == parts
        and storage.make_safe_name(name) == name
        and _WITH_HASH.search(name) is None
    )


def _add_hash(name: str, key: bytes) -> str:
    mark = f"[{hashlib.sha256(key).hexdigest()[:_DIGITS]}]"
    safe = storage.make_safe_name(name.replace("\\", "_"))
    suffix = PurePath(safe).suffix
    if len(suffix.encode()) > _MAX_SUFFIX_BYTES:
        suffix = ""
    room = paths.MAX_NAME_BYTES - len(mark) - len(suffix.encode())
    stem = safe.removesuffix(suffix).encode()[:room].decode(errors="ignore")
    return f"{stem}{mark}{suffix}"


_BUSY_SECONDS = 30.0
_VERSION = 1
# A row without document_id reserves the name of a file whose upload has not finished.
_SCHEMA = f"""
begin immediate;
create table if not exists files (
    target text not null,
    path blob not null,
    name text not null,
    size integer not null,
    mtime_ns integer not null,
    sha256 text not null,
    document_id text,
    primary key (target, path),
    unique (target, name)
) without rowid;
pragma user_version = {_VERSION};
commit;
"""
_COLUMNS = "path, name, size, mtime_ns, sha256, document_id"
_BY_PATH = f"select {_COLUMNS} from files where target = ? and path = ?"  # noqa: S608  # ours
_BY_NAME = f"select {_COLUMNS} from files where target = ? and name = ?"  # noqa: S608  # ours
_PUT = "insert or replace into files values (?, ?, ?, ?, ?, ?, ?)"
_DELETE = "delete from files where target = ? and path = ?"
_SAMPLE = "select document_id from files where target = ? and document_id is not null limit ?"


@dataclasses.dataclass(frozen=True, slots=True)
class JournalEntry:
    """A file as it was at its last upload; without `document_id`, the upload has not finished."""

    path: Path
    name: str
    stamp: scan.FileStamp
    sha256: str
    document_id: str | None


def default_path() -> Path:
    """Return the path of the journal in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pagewarden" / "imports.sqlite3"


class Journal:
    """The journal entries of one target, a case on a server.

    Its methods block on the disk, so call them in threads.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, target: str) -> None:
        self._connection = connection
        self._path = path
        self._target = target
        self._lock = threading.Lock()

    def get(self, path: Path) -> JournalEntry | None:
        """Return the entry of a file."""
        return self._find_entry(_BY_PATH, os.fsencode(path))

    def has_uploaded(self, found_file: scan.FoundFile) -> bool:
        """Return whether a file has been uploaded in its present state."""
        entry = self.get(found_file.path)
        return (
            entry is not None and entry.document_id is not None and entry.stamp == found_file.stamp
        )

    def choose_name(self, folder: Path, path: Path) -> str:
        """Return the document name of a file, or a free one for a new file."""
        known = self.get(path)
        if known is not None:
            return known.name
        name = make_name(folder, path)
        return name if self._find_entry(_BY_NAME, name) is None else make_unique_name(folder, path)

    def begin(self, folder: Path, found_file: scan.FoundFile, sha256: str) -> JournalEntry:
        """Reserve the name of a file before its upload; return its entry.

        The entry has a `document_id` if this content has been uploaded. A moved file keeps its
        entry.
        """
        known = self.get(found_file.path) or self._pop_moved_entry(folder, found_file.path, sha256)
        name = known.name if known else self.choose_name(folder, found_file.path)
        is_same = known is not None and known.sha256 == sha256
        document_id = known.document_id if known and is_same else None
        entry = JournalEntry(found_file.path, name, found_file.stamp, sha256, document_id)
        self._save_entry(entry)
        return entry

    def finish(self, entry: JournalEntry, document_id: str) -> None:
        """Record that a file has been uploaded."""
        self._save_entry(dataclasses.replace(entry, document_id=document_id))

    def sample_documents(self, count: int) -> list[str]:
        """Return IDs of documents that the server should have."""
        return [row[0] for row in self._execute(_SAMPLE, count)]

    def _pop_moved_entry(self, folder: Path, path: Path, sha256: str) -> JournalEntry | None:
        """Remove and return the entry of the same name and content whose file no longer exists."""
        owner = self._find_entry(_BY_NAME, make_name(folder, path))
        if owner is None or owner.sha256 != sha256 or os.path.lexists(owner.path):
            return None
        self._execute(_DELETE, os.fsencode(owner.path))
        return owner

    def _find_entry(self, query: str, value: str | bytes) -> JournalEntry | None:
        rows = self._execute(query, value)
        return _make_entry(*rows[0]) if rows else None

    def _save_entry(self, entry: JournalEntry) -> None:
        stamp = entry.stamp
        self._execute(
            _PUT, os.fsencode(entry.path), entry.name, stamp.size, stamp.mtime_ns, entry.sha256,
            entry.document_id,
        )  # fmt: skip

    def _execute(self, query: str, *values: str | bytes | int | None) -> list[tuple[Any, ...]]:
        """Run a statement for the target; changes are on disk when it returns."""
        with self._lock, _translate_errors(self._path):
            return self._connection.execute(query, (self._target, *values)).fetchall()


def _make_entry(  # noqa: PLR0913, PLR0917  # the columns
    path: bytes, name: str, size: int, mtime_ns: int, sha256: str, document_id: str | None
) -> JournalEntry:
    stamp = scan.FileStamp(size, mtime_ns)
    return JournalEntry(Path(os.fsdecode(path)), name, stamp, sha256, document_id)


@contextlib.contextmanager
def open_journal(target: str, path: Path | None = None) -> Iterator[Journal]:
    """Open the journal; create it if it does not exist."""
    path = path or default_path()
    with _translate_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    with contextlib.closing(connection):
        with _translate_errors(path):
            _prepare(connection)
        yield Journal(connection, path, target)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("pragma synchronous = full")
    ((version,),) = connection.execute("pragma user_version")
    if version not in {0, _VERSION}:
        raise sqlite3.DatabaseError("it was written by another version of Pagewarden")
    if version == 0:
        connection.executescript(_SCHEMA)


@contextlib.contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise errors.LocalFileError(
            f"cannot use the journal {path} ({exc}); repair it, or move it elsewhere. Without "
            "it, the import uploads all files again, and the server skips those it already has"
        ) from exc
