"""What was taken in already, on disk, so that whoever is killed can go on where they were.

SQLite and not a file of lines: looking up one of a million files must not mean reading them all,
a line that is half written must not count, and two imports at once must not mix theirs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.importing import names, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUSY_SECONDS = 30.0
_VERSION = 1
# A row without document_id has a name for a file that is on its way.
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
_FORGET = "delete from files where target = ? and path = ?"
_SOME = "select document_id from files where target = ? and document_id is not null limit ?"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was when it was last taken; without document_id it did not arrive yet."""

    path: Path
    name: str
    stamp: tree.Stamp
    sha256: str
    document_id: str | None


def default_path() -> Path:
    """Give the place in the user's folder for what programs keep."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pagewarden" / "imports.sqlite3"


class Journal:
    """The part of the journal that is about one target: a case of a server.

    Its methods wait for the disk, so they are called in threads, one at a time.
    """

    def __init__(self, connection: sqlite3.Connection, place: Path, target: str) -> None:
        self._connection = connection
        self._place = place
        self._target = target
        self._lock = threading.Lock()

    def get(self, path: Path) -> Entry | None:
        """Find what is known of a file."""
        return self._find(_BY_PATH, os.fsencode(path))

    def has(self, found: tree.Found) -> bool:
        """Tell whether a file has arrived as it is now."""
        entry = self.get(found.path)
        return entry is not None and entry.document_id is not None and entry.stamp == found.stamp

    def name_of(self, folder: Path, path: Path) -> str:
        """Give the name that a file has, or that it would have if it were not moved."""
        known = self.get(path)
        if known is not None:
            return known.name
        name = names.plain(folder, path)
        return name if self._find(_BY_NAME, name) is None else names.own(folder, path)

    def begin(self, folder: Path, found: tree.Found, sha256: str) -> Entry:
        """Give a file its name, for good, before it is sent; says whether its bytes have arrived.

        A name belongs to one file. A file that was moved takes along all that is known of it.
        """
        known = self.get(found.path) or self._take_over(folder, found.path, sha256)
        name = known.name if known else self.name_of(folder, found.path)
        has_arrived = known is not None and known.sha256 == sha256
        document_id = known.document_id if known and has_arrived else None
        entry = Entry(found.path, name, found.stamp, sha256, document_id)
        self._put(entry)
        return entry

    def finish(self, entry: Entry, document_id: str) -> None:
        """Write down that a file has arrived."""
        self._put(dataclasses.replace(entry, document_id=document_id))

    def some_documents(self, count: int) -> list[str]:
        """Name documents that the server should know."""
        return [row[0] for row in self._all(_SOME, count)]

    def _take_over(self, folder: Path, path: Path, sha256: str) -> Entry | None:
        """Find the file of this name and these bytes whose own place is empty now."""
        owner = self._find(_BY_NAME, names.plain(folder, path))
        if owner is None or owner.sha256 != sha256 or os.path.lexists(owner.path):
            return None
        self._all(_FORGET, os.fsencode(owner.path))
        return owner

    def _find(self, query: str, value: str | bytes) -> Entry | None:
        rows = self._all(query, value)
        return _entry(*rows[0]) if rows else None

    def _put(self, entry: Entry) -> None:
        stamp = entry.stamp
        self._all(
            _PUT, os.fsencode(entry.path), entry.name, stamp.size, stamp.mtime_ns, entry.sha256,
            entry.document_id,
        )  # fmt: skip

    def _all(self, query: str, *values: str | bytes | int | None) -> list[tuple[Any, ...]]:
        """Run a query about the target; what it changes is on disk before it returns."""
        with self._lock, _translated(self._place):
            return self._connection.execute(query, (self._target, *values)).fetchall()


def _entry(  # noqa: PLR0913, PLR0917  # the columns
    path: bytes, name: str, size: int, mtime_ns: int, sha256: str, document_id: str | None
) -> Entry:
    stamp = tree.Stamp(size, mtime_ns)
    return Entry(Path(os.fsdecode(path)), name, stamp, sha256, document_id)


@contextlib.contextmanager
def opened(target: str, place: Path | None = None) -> Iterator[Journal]:
    """Open the journal, making it when it is not there yet."""
    place = place or default_path()
    with _translated(place):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = sqlite3.connect(
            place, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    with contextlib.closing(connection):
        with _translated(place):
            _prepare(connection)
        yield Journal(connection, place, target)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("pragma synchronous = full")
    ((version,),) = connection.execute("pragma user_version")
    if version not in {0, _VERSION}:
        raise sqlite3.DatabaseError("it is of another version of Pagewarden")
    if version == 0:
        connection.executescript(_SCHEMA)


@contextlib.contextmanager
def _translated(place: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise errors.LocalFileError(
            f"the journal {place} cannot be used ({exc}); see to it, or move it away: the server "
            "knows what it has"
        ) from exc
