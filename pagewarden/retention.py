"""Remove what nobody needs any more: old jobs and rows, and files without a document."""

from __future__ import annotations

import collections
import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pagewarden.database import Database
    from pagewarden.files import FileStore
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 500
JOBS = 100
_OF_ROWS = ("bin_days", "error_days", "webhook_days", "message_days")
# A dry run counts so far.
MOST = 10_000
# An upload stores its file before there is a document; nobody takes an hour in between.
GRACE = dt.timedelta(hours=1)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Only what an upload wrote is ours to remove: case, upload, name.
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


@dataclass(frozen=True, slots=True)
class Removed:
    """How much went, or would go.

    Of files: those of erased documents, without a document, half written. Then check jobs whose
    results went and that went altogether, documents of the bin, errors, webhooks and messages.
    """

    erased: int = 0
    orphaned: int = 0
    unfinished: int = 0
    purged: int = 0
    erased_jobs: int = 0
    documents: int = 0
    errors: int = 0
    webhooks: int = 0
    messages: int = 0


async def clean(database: Database, store: FileStore, terms: Terms, *, now: dt.datetime) -> Removed:
    """Remove all of it; done again, or by two at once, it does no harm."""
    before = now - GRACE
    purged, erased_jobs = await purge_jobs(database, terms)
    rows = await apply_terms(database, terms)
    return Removed(
        erased=await remove_erased(database, store),
        orphaned=await remove_orphans(database, store, before),
        unfinished=await store.tidy(before),
        purged=purged,
        erased_jobs=erased_jobs,
        **rows,
    )


async def look(database: Database, store: FileStore, terms: Terms, *, now: dt.datetime) -> Removed:
    """Count what clean() would remove, and remove nothing.

    Files of what is yet to be erased, and half written ones, are not counted.
    """
    jobs = await database.rpc("count_old_check_jobs", **_of_jobs(terms))
    rows = await apply_terms(database, terms, dry_run=True)
    erased, after = 0, 0
    while batch := await database.rpc("files_to_remove", p_after=after, p_limit=BATCH):
        erased += len(batch)
        after = batch[-1]["id"]
    orphaned = 0
    async for paths in _old_uploads(store, now - GRACE):
        orphaned += len(await database.rpc("unknown_files", p_paths=paths))
    return Removed(
        erased=erased,
        orphaned=orphaned,
        purged=jobs["purged"],
        erased_jobs=jobs["erased"],
        **rows,
    )


async def purge_jobs(database: Database, terms: Terms) -> tuple[int, int]:
    """Remove results that are too old, then whole jobs; their files are on the list of erased."""
    purged = erased = 0
    while True:
        done = await database.rpc("purge_check_jobs", **_of_jobs(terms), p_limit=JOBS)
        purged += done["purged"]
        erased += done["erased"]
        if max(done["purged"], done["erased"]) < JOBS:
            return purged, erased


def _of_jobs(terms: Terms) -> dict[str, float]:
    return {"p_result_days": terms.result_days, "p_input_days": terms.input_days}


async def apply_terms(database: Database, terms: Terms, *, dry_run: bool = False) -> dict[str, int]:
    """Remove rows that are too old, or count them, kind by kind."""
    wanted = {name: getattr(terms, name) for name in _OF_ROWS}
    total: collections.Counter[str] = collections.Counter()
    limit = MOST if dry_run else BATCH
    while True:
        done = await database.rpc(
            "apply_retention", p_terms=wanted, p_dry_run=dry_run, p_limit=limit
        )
        total.update(done)
        if dry_run or max(done.values()) < limit:
            return dict(total)


async def remove_erased(database: Database, store: FileStore) -> int:
    """Remove the files of documents that were erased; what the store refuses stays on the list."""
    removed, after = 0, 0
    while batch := await database.rpc("files_to_remove", p_after=after, p_limit=BATCH):
        done = [entry["id"] for entry in batch if await _remove(store, entry["path"])]
        if done:
            removed += await database.rpc("files_removed", p_ids=done)
        after = batch[-1]["id"]
    return removed


async def remove_orphans(database: Database, store: FileStore, before: dt.datetime) -> int:
    """Remove uploaded files that were there before, and that no document names."""
    removed = 0
    async for paths in _old_uploads(store, before):
        removed += await _remove_unknown(database, store, paths)
    return removed


async def _old_uploads(store: FileStore, before: dt.datetime) -> AsyncIterator[list[str]]:
    """Go through what uploads wrote before then, in batches."""
    found: list[str] = []
    async for entry in store.list():
        if entry.modified < before and _UPLOADED.fullmatch(entry.path):
            found.append(entry.path)
        if len(found) == BATCH:
            yield found
            found = []
    if found:
        yield found


async def _remove_unknown(database: Database, store: FileStore, paths: Sequence[str]) -> int:
    removed = 0
    for path in await database.rpc("unknown_files", p_paths=list(paths)):
        log.warning("orphan", path=path)
        removed += await _remove(store, path)
    return removed


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
