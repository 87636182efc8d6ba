"""The store itself."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pagewarden import concurrency, errors, retry
from pagewarden.files import disk, intake, interface, paths
from pagewarden.files.dropbox import api as api_module
from pagewarden.files.dropbox import faults, hashing, upload

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Mapping
    from pathlib import Path
    from types import TracebackType

_BLOCK = 8 * 1024 * 1024  # bytes of one request
_LISTED = 2000


class DropboxFiles:
    """A folder of a Dropbox; without a name, all of it, or the folder of the app.

    Dropbox makes no difference between upper and lower case.
    """

    def __init__(
        self,
        api: api_module.Api,
        folder: str = "",
        retry_policy: retry.RetryPolicy | None = None,
    ) -> None:
        self._api = api
        self._root = "".join(f"/{part}" for part in paths.check_prefix(folder))
        self._retry = retry_policy or retry.RetryPolicy()

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> interface.Stored:
        """Keep what comes."""
        place = self._place(path)
        taken = intake.Intake(chunks, limit)
        file = upload.Upload(self._api, self._retry, place)
        with faults.translated(path):
            async with contextlib.aclosing(taken.blocks(_BLOCK)) as blocks:
                last = await file.send(blocks)
            await concurrency.finish_or_undo(file.commit(last), undo=lambda _: self.delete(path))
        return taken.stored(path)

    async def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Hand out the bytes from start on, and check the whole."""
        place, expected, seen = self._place(path), "", hashing.ContentHash()

        async def read_from(position: int) -> AsyncGenerator[bytes, None]:
            nonlocal expected
            with faults.translated(path):
                async with self._api.receive(place, position) as content:
                    expected = content.content_hash
                    async for chunk in content.chunks:
                        yield chunk

        async with contextlib.aclosing(self._retry.resume(read_from, start)) as chunks:
            async for chunk in chunks:
                seen.update(chunk)
                yield chunk
        if start == 0 and expected not in {"", seen.hexdigest()}:
            raise errors.StoreAway(f"what came of {path!r} is not what was stored; try again")

    async def fetch(self, path: str, target: Path) -> None:
        """Copy to a local file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await disk.save(chunks, target)

    async def delete(self, path: str) -> bool:
        """Remove a file, and never a folder."""
        found = await self._metadata(path)
        if found is None:
            return False
        argument = {"path": self._place(path), "parent_rev": found["rev"]}
        with contextlib.suppress(errors.FileNotThere):  # gone already, maybe by an earlier try
            await self._call(path, "files/delete_v2", argument)
        return True

    async def stat(self, path: str) -> interface.Entry | None:
        """Look at a file."""
        found = await self._metadata(path)
        return _entry(path, found) if found else None

    async def list(self, prefix: str = "") -> AsyncGenerator[interface.Entry, None]:
        """Go through all files below a folder."""
        place = "/".join((self._root, *paths.check_prefix(prefix)))
        argument = {"path": place, "recursive": True, "limit": _LISTED}
        try:
            page = await self._call(prefix, "files/list_folder", argument)
        except errors.FileNotThere:
            return
        while True:
            for found in page["entries"]:
                path = found["path_display"][len(self._root) + 1 :]
                if found[".tag"] == "file" and paths.is_path(path):
                    yield _entry(path, found)
            if not page["has_more"]:
                return
            cursor = {"cursor": page["cursor"]}
            page = await self._call(prefix, "files/list_folder/continue", cursor)

    async def signed_url(self, path: str, seconds: int) -> str | None:
        """Make a link; those of Dropbox live for four hours, whatever is asked."""
        interface.check_url_seconds(seconds)
        argument = {"path": self._place(path)}
        return str((await self._call(path, "files/get_temporary_link", argument))["link"])

    async def ping(self) -> None:
        """Look into the folder, which may not be there yet."""
        argument = {"path": self._root, "limit": 1}
        with contextlib.suppress(errors.FileNotThere):
            await self._call(self._root, "files/list_folder", argument)

    async def tidy(self, before: datetime) -> int:  # noqa: ARG002  # as every store
        """Dropbox itself forgets what was not committed."""
        return 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.close()

    def _place(self, path: str) -> str:
        return "/".join((self._root, *paths.check_path(path)))

    async def _metadata(self, path: str) -> Mapping[str, Any] | None:
        try:
            found = await self._call(path, "files/get_metadata", {"path": self._place(path)})
        except errors.FileNotThere:
            return None
        return dict(found) if found[".tag"] == "file" else None

    async def _call(self, path: str, route: str, argument: Mapping[str, Any]) -> Any:  # noqa: ANN401
        async def attempt() -> Any:  # noqa: ANN401  # JSON
            with faults.translated(path):
                return await self._api.call(route, argument)

        return await self._retry.call(attempt)


def _entry(path: str, found: Mapping[str, Any]) -> interface.Entry:
    modified = datetime.fromisoformat(found["server_modified"])
    return interface.Entry(path, found["size"], modified)
