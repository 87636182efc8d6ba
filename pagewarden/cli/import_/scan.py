"""Walk a folder tree; detect files that are still being written. Links are not followed."""

from __future__ import annotations

import enum
import fnmatch
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pagewarden.ocr import file_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NS = 1_000_000_000


@dataclass(slots=True)
class StabilityTracker:
    """Tracks since when each file has been unchanged.

    A file is stable if its modification time, or the first scan that saw its present state, is at
    least `seconds` ago. The scan decides if the clock of a remote disk differs from ours.
    """

    seconds: float
    _seen: dict[Path, tuple[FileStamp, float]] = field(default_factory=dict)

    def is_stable(self, found: FoundFile, *, now: float, wall_time: float) -> bool:
        """Return whether a file is stable; `now` is from a monotonic clock."""
        if wall_time - found.stamp.mtime_ns / _NS >= self.seconds:
            self._seen.pop(found.path, None)
            return True
        stamp, since = self._seen.get(found.path, (None, now))
        if stamp != found.stamp:
            since = now
        self._seen[found.path] = (found.stamp, since)
        return now - since >= self.seconds


_TEMPORARY = re.compile(
    r"~.*|.*~|.*\.(tmp|temp|part|partial|crdownload|download|swp|lock)|thumbs\.db|desktop\.ini",
    re.IGNORECASE,
)


class SkipReason(enum.StrEnum):
    """Why a file is skipped; follows a count in the summary."""

    HIDDEN = "hidden"
    TEMPORARY = "temporary"
    EMPTY = "empty"
    TOO_LARGE = "too large"
    LINK = "links"
    SPECIAL = "special files"
    NOT_INCLUDED = "not matching --include"
    OTHER_TYPE = "of unsupported type; --include '*' uploads them for manual routing"
    UNSTABLE = "still being written; run the import again later"


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size and modification time, which tell whether a file has changed without reading it."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be uploaded."""

    path: Path
    stamp: FileStamp


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not uploaded."""

    path: Path
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class InaccessiblePath:
    """A file or folder that cannot be accessed, with the error message of the system."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A folder and the files to import: all readable ones, or those matching a pattern.

    A pattern without a slash matches names; one with a slash matches paths below the folder.
    """

    folder: Path
    patterns: Sequence[str]
    max_bytes: int

    def walk(self) -> Iterator[FoundFile | SkippedFile | InaccessiblePath]:
        """Walk the tree, sorted within each folder."""
        folders = [self.folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as exc:
                yield InaccessiblePath(folder, exc.strerror or str(exc))
                continue
            subfolders = []
            for entry in found:
                if entry.is_dir(follow_symlinks=False) and not _is_hidden(entry.name):
                    subfolders.append(Path(entry))
                else:
                    yield from self._classify(entry)
            folders += reversed(subfolders)

    def has_supported_type(self, path: Path) -> bool:
        """Tell from its content whether a file can be read; always true with patterns."""
        if self.patterns:
            return True
        with path.open("rb") as file:
            return file_types.detect(file.read(file_types.HEAD_BYTES)) is not None

    def _classify(
        self, entry: os.DirEntry[str]
    ) -> Iterator[FoundFile | SkippedFile | InaccessiblePath]:
        path = Path(entry)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # deleted meanwhile
        except OSError as exc:
            yield InaccessiblePath(path, exc.strerror or str(exc))
            return
        reason = self._find_skip_reason(path, status)
        stamp = FileStamp(status.st_size, status.st_mtime_ns)
        yield SkippedFile(path, reason) if reason else FoundFile(path, stamp)

    def _find_skip_reason(self, path: Path, status: os.stat_result) -> SkipReason | None:
        tests = (
            (SkipReason.HIDDEN, _is_hidden(path.name)),
            (SkipReason.TEMPORARY, _TEMPORARY.fullmatch(path.name) is not None),
            (SkipReason.LINK, stat.S_ISLNK(status.st_mode)),
            (SkipReason.SPECIAL, not stat.S_ISREG(status.st_mode)),
            (SkipReason.NOT_INCLUDED, not self._is_included(path.relative_to(self.folder))),
            (SkipReason.EMPTY, status.st_size == 0),
            (SkipReason.TOO_LARGE, status.st_size > self.max_bytes),
        )
        return next((reason for reason, applies in tests if applies), None)

    def _is_included(self, relative_path: PurePath) -> bool:
        return not self.patterns or any(
            fnmatch.fnmatch(str(relative_path) if "/" in pattern else relative_path.name, pattern)
            for pattern in self.patterns
        )


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
