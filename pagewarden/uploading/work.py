"""Upload files side by side and wait for their text; one that fails stops no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from pagewarden import bars, client, concurrency, errors
from pagewarden.exports import files as export_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pagewarden.ocr_command import inputs
    from pagewarden.uploading import shown

SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted; without a folder the results are put into scratch, to be printed.

    No formats: nobody waits for the text.
    """

    wishes: client.UploadOptions
    formats: Sequence[str]
    folder: Path | None
    scratch: Path


@dataclass(slots=True)
class Outcome:
    """What came of it all: uploads, results on disk, and messages about what went wrong."""

    uploads: dict[inputs.Input, client.UploadedDocument] = field(default_factory=dict)
    results: dict[inputs.Input, list[Path]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def under_way(self) -> list[client.UploadedDocument]:
        """List what is uploaded, and was not waited for to the end."""
        return [found for item, found in self.uploads.items() if item not in self.results]


class Work:
    """All files of one command."""

    def __init__(
        self, server: client.Client, order: Order, seen: shown.Shown, outcome: Outcome
    ) -> None:
        self._client = server
        self._order = order
        self._shown = seen
        self._outcome = outcome
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def run(self, items: Sequence[inputs.Input]) -> None:
        """Upload them, a few at a time; those that are uploaded are waited for together."""
        await concurrency.run_all(map(self._guarded, items))

    async def _guarded(self, item: inputs.Input) -> None:
        """Deal with one file; an error of its own is only noted."""
        with self._shown.bar(item.name) as bar:
            try:
                async with self._places:
                    accepted = await self._upload(item, bar)
                if self._order.formats:
                    await self._fetch(item, accepted, bar)
            except (errors.ServerError, errors.LocalFileError) as exc:
                self._fail(item, str(exc))
            except OSError as exc:
                why = f"{exc.strerror}: {exc.filename}" if exc.filename else str(exc)
                self._fail(item, f"its text cannot be saved ({why}); mend that")

    async def _upload(self, item: inputs.Input, bar: shown.Bar) -> client.UploadedDocument:
        bar.begin_sending((await asyncio.to_thread(item.path.stat)).st_size)
        accepted = await self._client.upload(
            item.path, name=document_name(item), options=self._order.wishes, on_sent=bar.send
        )
        self._outcome.uploads[item] = accepted
        said = "already there" if accepted.existing else "uploaded"
        self._shown.tell(f"{item.name}: {said} as {accepted.document_id}")
        return accepted

    async def _fetch(
        self, item: inputs.Input, accepted: client.UploadedDocument, bar: shown.Bar
    ) -> None:
        """Wait for the text, and put it where it belongs."""
        progress = await client.wait_until_finished(
            self._client, accepted.document_id, on_progress=bar.read
        )
        self._outcome.results[item] = []
        if progress.state is client.State.NOT_READ:
            self._fail(item, f"{progress.problem}; ask {accepted.status_url}")
            return
        targets = item.targets(self._order.folder or self._order.scratch, self._order.formats)
        for name, target in targets.items():
            await self._save(item, accepted.document_id, name, target)
        self._outcome.results[item] = list(targets.values())
        if progress.unread:
            self._fail(item, f"{bars.count(progress.unread, 'page')} of it could not be read")
        where = ", ".join(map(str, targets.values())) if self._order.folder else ""
        read = f"{item.name}: {bars.count(progress.pages_done, 'page')} read"
        self._shown.tell(f"{read}, {where}" if where else read)

    async def _save(self, item: inputs.Input, document_id: str, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with export_files.replacing(target, original=item.path) as out:
            await self._client.save_text(document_id, name, out)

    def _fail(self, item: inputs.Input, why: str) -> None:
        self._outcome.failures.append(f"{item.name}: {why}")


def document_name(item: inputs.Input) -> str:
    """Give the name that the document of a file has."""
    return PurePath(item.name).name
