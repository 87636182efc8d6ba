"""Remove what nobody needs any more: old check jobs, and files without a document."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database
    from pagewarden.files import FileStore

log = structlog.get_logger(__name__)

BATCH = 500
JOBS = 100
# An upload stores its file before there is a document; nobody takes an hour in between.
GRACE = dt.timedelta(hours=1)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Only what an upload wrote is ours to remove: case, upload, name.
_UPLOADED = re.compile(rf"{_UUID}/{_UUID}/[^/]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """How many days after its end the results of a check job are kept, and its pictures."""

    result_days: float
    input_days: float


@dataclass(frozen=True, slots=True)
class Removed:
    """How many files went (of erased documents, without a document, half written), and jobs."""

    erased: int = 0
    orphaned: int = 0
    unfinished: int = 0
    purged: int = 0
    erased_jobs: int = 0


async def clean(database: Database, store: FileStore, terms: Terms, *, now: dt.datetime) -> Removed:
    """Remove all of them; done again, or by two at once, it does no harm."""
    before = now - GRACE
    purged, erased_jobs = await purge_jobs(database, terms)
    return Removed(
        erased=await remove_erased(database, store),
        orphaned=await remove_orphans(database, store, before),
        unfinished=await store.tidy(before),
        purged=purged,
        erased_jobs=erased_jobs,
    )


async def purge_jobs(database: Database, terms: Terms) -> tuple[int, int]:
    """Remove results that are too old, then whole jobs; their files are on the list of erased."""
    purged = erased = 0
    while True:
        done = await database.rpc(
            "purge_check_jobs",
            p_result_days=terms.result_days,
            p_input_days=terms.input_days,
            p_limit=JOBS,
        )
        purged += done["purged"]
        erased += done["erased"]
        if max(done["purged"], done["erased"]) < JOBS:
            return purged, erased


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
    found: list[str] = []
    async for entry in store.list():
        if entry.modified < before and _UPLOADED.fullmatch(entry.path):
            found.append(entry.path)
        if len(found) == BATCH:
            removed += await _remove_unknown(database, store, found)
            found = []
    return removed + (await _remove_unknown(database, store, found) if found else 0)


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
