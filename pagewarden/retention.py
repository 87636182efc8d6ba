"""Remove old jobs and rows, files of erased documents and half-written files.

A file that no document names is reported and never removed: the database may be a new or a restored
one, and the file the only copy.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import structlog

from pagewarden import errors
from pagewarden.database import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.database import Database
    from pagewarden.files import Entry, FileStore
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 500
JOBS = 100
_Kind = Literal["documents", "errors", "webhooks", "messages"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_OF_ROWS = ("bin_days", "error_days", "webhook_days", "message_days")
# A dry run counts so far.
MOST = 10_000
# How many of the unknown files are listed; all of them are counted.
MAX_LISTED = 1_000
_MAX_LOGGED = 10
# An upload stores its file before there is a document, and takes less than an hour in between.
GRACE = dt.timedelta(hours=1)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Uploads write case/upload/name; other files in the store are not ours.
_UPLOADED = re.compile(rf"{_UUID}/{_UUID}/[^/]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """For how many days things are kept; None is for ever.

    Results and inputs are those of check jobs, counted from their end.
    """

    result_days: float
    input_days: float
    bin_days: float | None = None
    error_days: float | None = None
    webhook_days: float | None = None
    message_days: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> Terms:
        """Take what the settings say."""
        return cls(
            settings.check_result_days,
            settings.check_input_days,
            settings.bin_days,
            settings.error_days,
            settings.webhook_days,
            settings.message_days,
        )


@dataclass(slots=True)
class UnknownFiles:
    """Uploaded files that no document names: how many, of how many bytes, and the first of them."""

    count: int = 0
    size: int = 0
    first: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Count a file, and list it while the list is short."""
        self.count += 1
        self.size += entry.size
        if len(self.first) < MAX_LISTED:
            self.first.append(entry)


@dataclass(frozen=True, slots=True)
class Summary:
    """How much went, or would go, and which files are unknown; these stay.

    Of files: those of erased documents, half written. Then check jobs whose results went and that
    went altogether, documents of the bin, errors, webhooks and messages.
    """

    unknown: UnknownFiles
    erased: int = 0
    unfinished: int = 0
    purged: int = 0
    erased_jobs: int = 0
    documents: int = 0
    errors: int = 0
    webhooks: int = 0
    messages: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Give all numbers by name."""
        counts: dict[str, Any] = dataclasses.asdict(self)
        del counts["unknown"]
        return counts | {"unknown_files": self.unknown.count, "unknown_bytes": self.unknown.size}


async def clean(database: Database, store: FileStore, terms: Terms, *, now: dt.datetime) -> Summary:
    """Remove all of it; done again, or by two at once, it does no harm."""
    before = now - GRACE
    purged, erased_jobs = await purge_jobs(database, terms)
    removed = await apply_terms(database, terms)
    return Summary(
        erased=await remove_erased(database, store),
        unknown=await find_unknown(database, store, before),
        unfinished=await store.tidy(before),
        purged=purged,
        erased_jobs=erased_jobs,
        **removed,
    )


async def look(database: Database, store: FileStore, terms: Terms, *, now: dt.datetime) -> Summary:
    """Count what clean() would remove, and remove nothing.

    Files of what is yet to be erased, and half written ones, are not counted.
    """
    jobs = await database.count_old_check_jobs(
        result_days=terms.result_days, input_days=terms.input_days
    )
    counted = await apply_terms(database, terms, dry_run=True)
    return Summary(
        erased=sum([len(batch) async for batch in _erased_files(database)]),
        unknown=await find_unknown(database, store, now - GRACE),
        purged=jobs["purged"],
        erased_jobs=jobs["erased"],
        **counted,
    )


async def purge_jobs(database: Database, terms: Terms) -> tuple[int, int]:
    """Remove results that are too old, then whole jobs; their files are on the list of erased."""
    purged = erased = 0
    while True:
        done = await database.purge_check_jobs(
            result_days=terms.result_days, input_days=terms.input_days, limit=JOBS
        )
        purged += done["purged"]
        erased += done["erased"]
        if max(done["purged"], done["erased"]) < JOBS:
            return purged, erased


async def apply_terms(
    database: Database, terms: Terms, *, dry_run: bool = False
) -> rows.ApplyRetentionAnswer:
    """Remove rows that are too old, or count them, kind by kind."""
    wanted = {name: getattr(terms, name) for name in _OF_ROWS}
    total = rows.ApplyRetentionAnswer(documents=0, errors=0, webhooks=0, messages=0)
    limit = MOST if dry_run else BATCH
    while True:
        done = await database.apply_retention(terms=wanted, dry_run=dry_run, limit=limit)
        for kind in _KINDS:
            total[kind] += done[kind]
        if dry_run or max(done[kind] for kind in _KINDS) < limit:
            return total


async def remove_erased(database: Database, store: FileStore) -> int:
    """Remove the files of documents that were erased; what the store refuses stays on the list."""
    removed = 0
    async for batch in _erased_files(database):
        done = [entry["id"] for entry in batch if await _remove(store, entry["path"])]
        if done:
            removed += await database.files_removed(ids=done)
    return removed


async def _erased_files(database: Database) -> AsyncIterator[list[rows.FileToRemove]]:
    """Go through the files of erased documents that are still stored, in batches."""
    after = 0
    while batch := await database.files_to_remove(after=after, limit=BATCH):
        yield batch
        after = batch[-1]["id"]


async def find_unknown(database: Database, store: FileStore, before: dt.datetime) -> UnknownFiles:
    """Find uploaded files that were stored before then and that no document names.

    The files of erased documents are known: they wait for their removal.
    """
    found = UnknownFiles()
    async for batch in _old_uploads(store, before):
        paths = set(await database.unknown_files(paths=list(batch)))
        if paths:
            # Asked last, since a document may be erased at any time.
            erased = [file["path"] async for files in _erased_files(database) for file in files]
            paths -= {path.removeprefix("/") for path in erased}
        for path in sorted(paths):
            found.add(batch[path])
    if found.count:
        first = [entry.path for entry in found.first[:_MAX_LOGGED]]
        log.warning("unknown_files", count=found.count, bytes=found.size, first=first)
    return found


async def _old_uploads(store: FileStore, before: dt.datetime) -> AsyncIterator[dict[str, Entry]]:
    """Go through what uploads wrote before then, in batches, by path."""
    found: dict[str, Entry] = {}
    async for entry in store.list():
        if entry.modified < before and _UPLOADED.fullmatch(entry.path):
            found[entry.path] = entry
        if len(found) == BATCH:
            yield found
            found = {}
    if found:
        yield found


async def _remove(store: FileStore, path: str) -> bool:
    """Remove a file, or say why not; one that is gone already is removed."""
    try:
        await store.delete(path.removeprefix("/"))
    except errors.UnsafePath as exc:
        log.warning("not_removed", path=path, error=str(exc))
        return True  # it can never have been in this store
    except errors.FileStoreError as exc:
        log.warning("not_removed", path=path, error=str(exc))
        return False
    return True
