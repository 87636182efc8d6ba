"""Select and upload new files; progress and summary."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hashlib
import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import client, concurrency, errors
from pagewarden.cli.import_ import scan
from pagewarden.cli.progress import BYTES, format_count, make_progress_bar, print_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from rich import progress
    from rich.console import Console

    from pagewarden.cli.import_.journal import Journal


class ImportProgress:
    """One bar for all files on a terminal, otherwise lines.

    The bar counts bytes, because they determine the remaining time.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._files = 0
        self._done = 0
        self._progress = make_progress_bar(console)
        self._task: progress.TaskID | None = None

    @contextlib.contextmanager
    def show(self, files: Sequence[scan.FoundFile]) -> Iterator[None]:
        """Show a bar for these files, on a terminal."""
        self._files, self._done = len(files), 0
        total = sum(file.stamp.size for file in files)
        with self._progress if self._console.is_terminal else contextlib.nullcontext():
            self._task = self._progress.add_task("", total=total, unit=BYTES)
            self._update_description()
            try:
                yield
            finally:
                self._progress.remove_task(self._task)
                self._task = None

    @contextlib.contextmanager
    def track_file(self, found_file: scan.FoundFile) -> Iterator[FileProgress]:
        """Count the bytes of a file while it is sent; count the file at the end."""
        progress = FileProgress(self, found_file.stamp.size)
        yield progress
        progress.update_bytes_sent(found_file.stamp.size)
        self._done += 1
        self._update_description()

    def advance(self, size: int) -> None:
        """Add bytes, or subtract them if the number is negative."""
        if self._task is not None:
            self._progress.advance(self._task, size)

    def print_file_line(self, line: str) -> None:
        """Print a line about a file, unless there is a bar."""
        if not self._console.is_terminal:
            self.print_line(line)

    def print_line(self, line: str) -> None:
        """Print a line without markup."""
        print_line(self._console, line)

    def _update_description(self) -> None:
        if self._task is not None:
            description = f"{self._done:,} of {format_count(self._files, 'file')}"
            self._progress.update(self._task, description=description)


class FileProgress:
    """Bytes sent of a file; a retry subtracts those of the failed attempt."""

    def __init__(self, import_progress: ImportProgress, size: int) -> None:
        self._total = import_progress
        self._size = size
        self._position = 0

    def update_bytes_sent(self, position: int) -> None:
        """Show how many bytes are sent."""
        position = min(position, self._size)
        self._total.advance(position - self._position)
        self._position = position


RETRY_SECONDS = 30.0

_MAX_EXAMPLES = 5


class FileResult(enum.Enum):
    """Result of importing a file."""

    UPLOADED = enum.auto()
    EXISTING = enum.auto()
    SKIPPED = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result for a file in a certain state; a failed file may be retried from `retry_at`."""

    result: FileResult
    stamp: scan.FileStamp | None = None
    why: str = ""
    retry_at: float = float("inf")


@dataclass(slots=True)
class ImportSummary:
    """The outcomes of all files."""

    outcomes: dict[Path, FileOutcome] = field(default_factory=dict)

    def count(self, result: FileResult) -> int:
        """Count the files with a result."""
        return sum(outcome.result is result for outcome in self.outcomes.values())

    def is_settled(self, found_file: scan.FoundFile, now: float) -> bool:
        """Return whether a file in its present state needs no further attempt."""
        outcome = self.outcomes.get(found_file.path)
        if outcome is None or outcome.stamp != found_file.stamp:
            return False
        return outcome.result is not FileResult.FAILED or now < outcome.retry_at

    def lines(self) -> Iterator[str]:
        """Format the summary, with the failures and their reasons last."""
        uploaded, existing = self.count(FileResult.UPLOADED), self.count(FileResult.EXISTING)
        yield f"{format_count(uploaded, 'file')} uploaded, {existing:,} already on the server"
        skipped = Counter(
            outcome.why
            for outcome in self.outcomes.values()
            if outcome.result is FileResult.SKIPPED
        )
        for why, number in skipped.most_common():
            yield f"skipped: {number:,} {why}"
        failed = defaultdict(list)
        for path, outcome in self.outcomes.items():
            if outcome.result is FileResult.FAILED:
                failed[outcome.why].append(path)
        if failed:
            yield "Failed; run the command again to retry only these files:"
        for why, paths in failed.items():
            yield f"  {why}"
            yield from (f"    {path}" for path in paths[:_MAX_EXAMPLES])
            if len(paths) > _MAX_EXAMPLES:
                yield f"    and {len(paths) - _MAX_EXAMPLES:,} more"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Files to upload now, whether there are unstable ones, and how long the scan took."""

    ready: list[scan.FoundFile]
    has_unstable: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Scanner:
    """Scans a tree for files to upload; records all others in the summary.

    With `again`, files that the journal lists as uploaded are uploaded again.
    """

    tree: scan.SourceTree
    journal: Journal
    stability: scan.StabilityTracker
    summary: ImportSummary
    again: bool = False
    now: Callable[[], float] = time.monotonic
    wall_time: Callable[[], float] = time.time

    def find_files(self) -> ScanResult:
        """Scan the whole tree; this blocks on the disk."""
        began, ready, has_unstable = self.now(), [], False
        for item in self.tree.walk():
            outcome = self._find_outcome(item)
            if outcome is None:
                assert isinstance(item, scan.FoundFile)  # noqa: S101  # for the type checker
                ready.append(item)
            else:
                self.summary.outcomes[item.path] = outcome
                has_unstable |= outcome.why == scan.SkipReason.UNSTABLE
        return ScanResult(ready, has_unstable, self.now() - began)

    def _find_outcome(
        self, item: scan.FoundFile | scan.SkippedFile | scan.InaccessiblePath
    ) -> FileOutcome | None:
        """Return the outcome of a file that is not uploaded, otherwise None."""
        match item:
            case scan.SkippedFile(reason=reason):
                return FileOutcome(FileResult.SKIPPED, why=reason)
            case scan.InaccessiblePath(why=why):
                return FileOutcome(FileResult.FAILED, why=f"could not be accessed: {why}")
            case scan.FoundFile() if self.summary.is_settled(item, self.now()):
                return self.summary.outcomes[item.path]
            case scan.FoundFile():
                return self._check_file(item)

    def _check_file(self, found_file: scan.FoundFile) -> FileOutcome | None:
        if not self.again and self.journal.has_uploaded(found_file):
            return FileOutcome(FileResult.EXISTING, found_file.stamp)
        if not self.stability.is_stable(found_file, now=self.now(), wall_time=self.wall_time()):
            return FileOutcome(FileResult.SKIPPED, why=scan.SkipReason.UNSTABLE)
        try:
            is_supported = self.tree.has_supported_type(found_file.path)
        except OSError as exc:
            why = f"could not be read: {exc.strerror or exc}"
            retry_at = self.now() + RETRY_SECONDS
            return FileOutcome(FileResult.FAILED, found_file.stamp, why, retry_at)
        if not is_supported:
            return FileOutcome(FileResult.SKIPPED, found_file.stamp, scan.SkipReason.OTHER_TYPE)
        return None


MAX_CONCURRENT = 4
# Repeated scans of a large tree must not keep the machine busy.
_MAX_SCAN_SHARE = 0.1
# Number of journal entries with which to check that the journal belongs to this server.
_SAMPLE_SIZE = 20
_UNKNOWN = frozenset({403, 404})


@dataclass(frozen=True, slots=True)
class ImportRun:
    """Uploads the files that the scanner finds."""

    scanner: Scanner
    server: client.Client
    options: client.UploadOptions
    progress: ImportProgress
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def require_same_server(self) -> None:
        """Raise `SettingsError` if the journal describes another server."""
        sample = await concurrency.run_in_thread(
            self.scanner.journal.sample_documents, _SAMPLE_SIZE
        )
        for document_id in sample:
            try:
                await self.server.status(document_id)
            except errors.CallRejected as exc:
                if exc.status not in _UNKNOWN:
                    raise
            else:
                return
        if sample and not self.scanner.again:
            raise errors.SettingsError(
                f"{self.server.url} does not have any of the documents that were previously "
                "imported there; if it is a new installation, use --again to upload all files again"
            )

    async def run_once(self) -> None:
        """Import all files; give those that are being written a second chance."""
        if (await self._run_pass()).has_unstable:
            await self.sleep(self.scanner.stability.seconds)
            await self._run_pass()

    async def watch(self, poll_seconds: float) -> None:
        """Import all files, and new ones as they appear, until cancelled."""
        while True:
            scan_result = await self._run_pass()
            await self.sleep(max(poll_seconds, scan_result.seconds / _MAX_SCAN_SHARE))

    async def _run_pass(self) -> ScanResult:
        scan_result = await concurrency.run_in_thread(self.scanner.find_files)
        files = iter(scan_result.ready)
        if scan_result.ready:
            with self.progress.show(scan_result.ready):
                await concurrency.run_all(self._import_from(files) for _ in range(MAX_CONCURRENT))
        return scan_result

    async def _import_from(self, files: Iterator[scan.FoundFile]) -> None:
        for found_file in files:
            with self.progress.track_file(found_file) as file:
                self.scanner.summary.outcomes[found_file.path] = await self._import_file(
                    found_file, file
                )

    async def _import_file(self, found_file: scan.FoundFile, file: FileProgress) -> FileOutcome:
        """Import a file; return an error as its outcome."""
        try:
            is_new = await self._upload(found_file, file)
        except errors.CallRejected as exc:
            return FileOutcome(FileResult.FAILED, found_file.stamp, str(exc))
        except (errors.ServerUnavailable, errors.LocalFileError) as exc:
            if not await asyncio.to_thread(os.path.lexists, found_file.path):
                return FileOutcome(FileResult.SKIPPED, why="deleted during the import")
            retry_at = self.scanner.now() + RETRY_SECONDS
            return FileOutcome(FileResult.FAILED, found_file.stamp, str(exc), retry_at)
        return FileOutcome(FileResult.UPLOADED if is_new else FileResult.EXISTING, found_file.stamp)

    async def _upload(self, found_file: scan.FoundFile, file: FileProgress) -> bool:
        """Upload a file unless its content has been uploaded; return whether it was new.

        If the process is killed before the journal is updated, the file is uploaded again, and the
        server recognises it by name and content.
        """
        known_files = self.scanner.journal
        sha256 = await concurrency.run_in_thread(_hash_file, found_file.path)
        entry = await concurrency.run_in_thread(
            known_files.begin, self.scanner.tree.folder, found_file, sha256
        )
        if entry.document_id is not None and not self.scanner.again:
            return False
        accepted = await self.server.upload(
            found_file.path, name=entry.name, options=self.options, on_sent=file.update_bytes_sent
        )
        await concurrency.run_in_thread(known_files.finish, entry, accepted.document_id)
        state = "already on the server" if accepted.existing else "uploaded"
        self.progress.print_file_line(f"{found_file.path}: {state} as {accepted.document_id}")
        return not accepted.existing


def _hash_file(path: Path) -> str:
    with client.translate_file_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
