"""Take in a tree: what is new in it is sent side by side, and written down when it has arrived."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import client, concurrency, errors
from pagewarden.importing import summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from pagewarden.importing import looking, shown, tree

SIDE_BY_SIDE = 4
# Looking at a large tree again and again must not keep a machine busy.
_LOOKING_SHARE = 0.1
# So many documents of the journal are asked for, to see whether it is about this server.
_SAMPLE = 20
_UNKNOWN = frozenset({403, 404})


@dataclass(frozen=True, slots=True)
class Import:
    """An import of what the looker finds."""

    looker: looking.Looker
    server: client.Client
    wishes: client.UploadOptions
    seen: shown.Shown
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def require_same_server(self) -> None:
        """Refuse to believe a journal that is about another server than the one that answers."""
        sample = await concurrency.run_in_thread(self.looker.known.some_documents, _SAMPLE)
        for document_id in sample:
            try:
                await self.server.status(document_id)
            except errors.CallRefused as exc:
                if exc.status not in _UNKNOWN:
                    raise
            else:
                return
        if sample and not self.looker.again:
            raise errors.SettingsError(
                f"{self.server.url} knows none of the documents that were taken in there before; "
                "if it was set up anew, say --again to send everything once more"
            )

    async def once(self) -> None:
        """Take in what is there; files that are being written get one more chance."""
        if (await self._round()).unfinished:
            await self.sleep(self.looker.resting.seconds)
            await self._round()

    async def watch(self, poll_seconds: float) -> None:
        """Take in what is there and what comes, until cancelled."""
        while True:
            look = await self._round()
            await self.sleep(max(poll_seconds, look.seconds / _LOOKING_SHARE))

    async def _round(self) -> looking.Look:
        look = await concurrency.run_in_thread(self.looker.look)
        files = iter(look.ready)
        if look.ready:
            with self.seen.bar(look.ready):
                await concurrency.run_all(self._take_from(files) for _ in range(SIDE_BY_SIDE))
        return look

    async def _take_from(self, files: Iterator[tree.Found]) -> None:
        for found in files:
            with self.seen.file(found) as file:
                self.looker.told.fates[found.path] = await self._take(found, file)

    async def _take(self, found: tree.Found, file: shown.File) -> summary.Fate:
        """Take in one file; an error of its own is only noted."""
        try:
            is_new = await self._send_file(found, file)
        except errors.CallRefused as exc:
            return summary.Fate(summary.Kind.FAILED, found.stamp, str(exc))
        except (errors.ServerAway, errors.LocalFileError) as exc:
            if not await asyncio.to_thread(os.path.lexists, found.path):
                return summary.Fate(summary.Kind.PASSED, why="deleted meanwhile")
            retry_at = self.looker.now() + summary.RETRY_SECONDS
            return summary.Fate(summary.Kind.FAILED, found.stamp, str(exc), retry_at)
        return summary.Fate(summary.Kind.NEW if is_new else summary.Kind.THERE, found.stamp)

    async def _send_file(self, found: tree.Found, file: shown.File) -> bool:
        """Send a file unless its bytes have arrived before; tells whether the server had them not.

        Killed before the last line, it is sent again, and the server knows it by name and bytes.
        """
        known = self.looker.known
        sha256 = await concurrency.run_in_thread(_digest, found.path)
        entry = await concurrency.run_in_thread(
            known.begin, self.looker.wanted.folder, found, sha256
        )
        if entry.document_id is not None and not self.looker.again:
            return False
        accepted = await self.server.upload(
            found.path, name=entry.name, options=self.wishes, on_sent=file.send
        )
        await concurrency.run_in_thread(known.finish, entry, accepted.document_id)
        said = "already there" if accepted.existing else "uploaded"
        self.seen.tell(f"{found.path}: {said} as {accepted.document_id}")
        return not accepted.existing


def _digest(path: Path) -> str:
    with client.translate_file_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
