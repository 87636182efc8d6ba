"""Files that were stored for something that may not come to be."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pagewarden.files import FileStore


@contextlib.asynccontextmanager
async def no_orphans(store: FileStore, paths: Iterable[str]) -> AsyncIterator[None]:
    """Remove the files again when they do not become documents.

    Where the commit is unknown, because we were cut off, they stay: retention reports them.
    """
    try:
        yield
    except Exception as exc:
        if not _is_open(exc):
            await remove(store, paths)
        raise


async def remove(store: FileStore, paths: Iterable[str]) -> None:
    """Remove files that nobody needs; what the store refuses, retention reports."""
    for path in paths:
        with contextlib.suppress(errors.FileStoreError):
            await store.delete(path)


def _is_open(exc: Exception) -> bool:
    """Tell whether the document may be there all the same: Postgres itself has not said no."""
    return isinstance(exc, errors.DatabaseError) and (exc.outage or exc.sqlstate is None)
