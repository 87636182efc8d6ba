"""Remove files that nobody needs any more: of erased documents, and of uploads that broke off."""

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
# An upload stores its file before there is a document; nobody takes an hour in between.
GRACE = dt.timedelta(hours=1)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Only what an upload wrote is ours to remove: case, upload, name.
_UPLOADED = re.compile(rf"{_UUID}/{_UUID}/[^/]+")


@dataclass(frozen=True, slots=True)
class Removed:
    """How many files went: of erased documents, without a document, half written."""

    erased: int = 0
    orphaned: int = 0
    unfinished: int = 0


async def clean(database: Database, store: FileStore, *, now: dt.datetime) -> Removed:
    """Remove all of them; done again, or by two at once, it does no harm."""
    before = now - GRACE
    return Removed(
        erased=await remove_erased(database, store),
        orphaned=await remove_orphans(database, store, before),
        unfinished=await store.tidy(before),
    )


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
