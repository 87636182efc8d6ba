"""Remove expired jobs and rows, files of erased documents, temporary and partial files.

Files without a document are reported but never removed: the database may be new or restored, and
the file the only copy.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import structlog

from pagewarden.database import rows
from pagewarden.errors import FileStoreError, UnsafePath

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from pagewarden.storage import Entry, FileStore

log = structlog.get_logger(__name__)

BATCH = 500
JOBS = 100
_Kind = Literal["documents", "errors", "webhooks", "messages"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_ROW_TERMS = ("bin_days", "error_days", "webhook_days", "message_days")
# A dry run counts at most this many.
MAX_FILES = 10_000
# Unknown files listed; all of them are counted.
MAX_LISTED = 1_000
_MAX_LOGGED = 10
# An upload stores its file first and creates the document less than an hour later.
GRACE = dt.timedelta(hours=1)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Uploads are stored as case/upload/name, exports for download as exports/…, uploads that are not
# confirmed as uploads/…; other files do not belong to Pagewarden.
_UPLOADED = re.compile(rf"(?:{_UUID}|exports)/{_UUID}/[^/]+|uploads/{_UUID}")


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Retention periods in days; None: unlimited.

    Results and inputs are those of check jobs, counted from the end of the job.
    """

    result_days: float
    input_days: float
    bin_days: float | None = None
    error_days: float | None = None
    webhook_days: float | None = None
    message_days: float | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> RetentionPolicy:
        """Return the configured policy."""
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
    """Uploaded files without a document: number, total size, and the first ones."""

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
    """Numbers of removed items, or in a dry run of those to remove; unknown files are kept.

    erased: files of erased documents. expired: staged uploads, and exports for download.
    unfinished: partially written files. purged, erased_jobs: check jobs whose results were removed,
    or that were removed entirely. documents: those in the bin.
    """

    unknown: UnknownFiles
    erased: int = 0
    expired: int = 0
    unfinished: int = 0
    purged: int = 0
    erased_jobs: int = 0
    documents: int = 0
    errors: int = 0
    webhooks: int = 0
    messages: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All numbers by name."""
        counts: dict[str, Any] = dataclasses.asdict(self)
        del counts["unknown"]
        return counts | {"unknown_files": self.unknown.count, "unknown_bytes": self.unknown.size}


async def apply_retention(
    database: Database, store: FileStore, policy: RetentionPolicy, *, now: dt.datetime
) -> Summary:
    """Remove everything that has expired; the call is idempotent, also if run concurrently."""
    before = now - GRACE
    purged, erased_jobs = await purge_jobs(database, policy)
    removed = await remove_expired_rows(database, policy)
    return Summary(
        erased=await remove_erased_files(database, store),
        expired=await remove_expired_files(database, store),
        unknown=await find_unknown_files(database, store, before),
        unfinished=await store.remove_unfinished(before),
        purged=purged,
        erased_jobs=erased_jobs,
        **removed,
    )


async def preview_retention(
    database: Database, store: FileStore, policy: RetentionPolicy, *, now: dt.datetime
) -> Summary:
    """Count what apply_retention() would remove.

    Partially written files are not counted, nor are files of documents not yet erased.
    """
    jobs = await database.count_old_check_jobs(
        result_days=policy.result_days, input_days=policy.input_days
    )
    counts = await remove_expired_rows(database, policy, dry_run=True)
    return Summary(
        erased=sum([len(batch) async for batch in _iterate_erased_files(database)]),
        expired=sum([len(batch) async for batch in _iterate_expired_files(database)]),
        unknown=await find_unknown_files(database, store, now - GRACE),
        purged=jobs["purged"],
        erased_jobs=jobs["erased"],
        **counts,
    )


async def purge_jobs(database: Database, policy: RetentionPolicy) -> tuple[int, int]:
    """Remove expired results, then expired jobs; this queues their files for removal."""
    purged = erased = 0
    while True:
        done = await database.purge_check_jobs(
            result_days=policy.result_days, input_days=policy.input_days, limit=JOBS
        )
        purged += done["purged"]
        erased += done["erased"]
        if max(done["purged"], done["erased"]) < JOBS:
            return purged, erased


async def remove_expired_rows(
    database: Database, policy: RetentionPolicy, *, dry_run: bool = False
) -> rows.ApplyRetentionAnswer:
    """Remove expired rows of each kind, or count them."""
    terms = {name: getattr(policy, name) for name in _ROW_TERMS}
    total = rows.ApplyRetentionAnswer(documents=0, errors=0, webhooks=0, messages=0)
    limit = MAX_FILES if dry_run else BATCH
    while True:
        done = await database.apply_retention(terms=terms, dry_run=dry_run, limit=limit)
        for kind in _KINDS:
            total[kind] += done[kind]
        if dry_run or max(done[kind] for kind in _KINDS) < limit:
            return total


async def remove_erased_files(database: Database, store: FileStore) -> int:
    """Remove the files of erased documents; files that cannot be removed stay queued."""
    removed = 0
    async for batch in _iterate_erased_files(database):
        done = [entry["id"] for entry in batch if await _remove(store, entry["path"])]
        if done:
            removed += await database.files_removed(ids=done)
    return removed


async def remove_expired_files(database: Database, store: FileStore) -> int:
    """Remove the recorded temporary files whose time is over, and no others.

    These are staged uploads, copied to their documents if they were confirmed, and exports.
    """
    removed = 0
    async for batch in _iterate_expired_files(database):
        done = [entry["id"] for entry in batch if await _remove(store, entry["path"])]
        if done:
            removed += await database.expired_files_removed(ids=done)
    return removed


async def _iterate_expired_files(database: Database) -> AsyncIterator[list[rows.FileToRemove]]:
    """Yield the temporary files whose time is over, in batches."""
    after = 0
    while batch := await database.expired_files(after=after, limit=BATCH):
        yield batch
        after = batch[-1]["id"]


async def _iterate_erased_files(database: Database) -> AsyncIterator[list[rows.FileToRemove]]:
    """Yield the files of erased documents that are still stored, in batches."""
    after = 0
    while batch := await database.files_to_remove(after=after, limit=BATCH):
        yield batch
        after = batch[-1]["id"]


async def find_unknown_files(
    database: Database, store: FileStore, before: dt.datetime
) -> UnknownFiles:
    """Find uploaded files without a document that were stored before a time.

    Files of erased documents are not unknown, as they are queued for removal.
    """
    found = UnknownFiles()
    async for batch in _iterate_old_uploads(store, before):
        paths = set(await database.unknown_files(paths=list(batch)))
        if paths:
            # Queried last, because a document may be erased at any time.
            erased = [
                file["path"] async for files in _iterate_erased_files(database) for file in files
            ]
            paths -= {path.removeprefix("/") for path in erased}
        for path in sorted(paths):
            found.add(batch[path])
    if found.count:
        first = [entry.path for entry in found.first[:_MAX_LOGGED]]
        log.warning("unknown_files_found", count=found.count, bytes=found.size, first=first)
    return found


async def _iterate_old_uploads(
    store: FileStore, before: dt.datetime
) -> AsyncIterator[dict[str, Entry]]:
    """Yield the uploaded files stored before a time, in batches by path."""
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
    """Remove a file if it exists; return False and log the reason if that fails."""
    try:
        await store.delete(path.removeprefix("/"))
    except UnsafePath as exc:
        log.warning("file_removal_failed", path=path, error=str(exc))
        return True  # such a path cannot exist in this store
    except FileStoreError as exc:
        log.warning("file_removal_failed", path=path, error=str(exc))
        return False
    return True
