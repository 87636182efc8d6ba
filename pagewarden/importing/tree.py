"""The files of a folder and all below it; links are not followed, wherever they lead."""

from __future__ import annotations

import enum
import fnmatch
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pagewarden.reading import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TEMPORARY = re.compile(
    r"~.*|.*~|.*\.(tmp|temp|part|partial|crdownload|download|swp|lock)|thumbs\.db|desktop\.ini",
    re.IGNORECASE,
)


class Reason(enum.StrEnum):
    """Why a file is passed over."""

    HIDDEN = "hidden"
    TEMPORARY = "temporary"
    EMPTY = "empty"
    TOO_LARGE = "too large"
    LINK = "links"
    SPECIAL = "neither file nor folder"
    UNWANTED = "not asked for with --include"
    OTHER_TYPE = "of a type that is not read; --include '*' takes them for a person to route"
    UNFINISHED = "still being written; import again when they are finished"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells whether a file is the same as before, without reading it."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may be taken."""

    path: Path
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Passed:
    """A file that is passed over."""

    path: Path
    reason: Reason


@dataclass(frozen=True, slots=True)
class Unseen:
    """A folder, or a file, that cannot be looked at; why is what the system says."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder, and what is wanted of it: all that can be read, or what fits one of the patterns.

    A pattern without a slash is for names, one with a slash for paths below the folder.
    """

    folder: Path
    patterns: Sequence[str]
    limit: int

    def walk(self) -> Iterator[Found | Passed | Unseen]:
        """Go through the tree, sorted within each folder."""
        folders = [self.folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as exc:
                yield Unseen(folder, exc.strerror or str(exc))
                continue
            inner = []
            for entry in found:
                if entry.is_dir(follow_symlinks=False) and not _is_hidden(entry.name):
                    inner.append(Path(entry))
                else:
                    yield from self._look(entry)
            folders += reversed(inner)

    def is_of_wanted_type(self, path: Path) -> bool:
        """Tell by content whether we read such files; with patterns they are all wanted."""
        if self.patterns:
            return True
        with path.open("rb") as file:
            return formats.detect(file.read(formats.HEAD_BYTES)) is not None

    def _look(self, entry: os.DirEntry[str]) -> Iterator[Found | Passed | Unseen]:
        path = Path(entry)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # deleted meanwhile
        except OSError as exc:
            yield Unseen(path, exc.strerror or str(exc))
            return
        reason = self._reason(path, status)
        stamp = Stamp(status.st_size, status.st_mtime_ns)
        yield Passed(path, reason) if reason else Found(path, stamp)

    def _reason(self, path: Path, status: os.stat_result) -> Reason | None:
        tests = (
            (Reason.HIDDEN, _is_hidden(path.name)),
            (Reason.TEMPORARY, _TEMPORARY.fullmatch(path.name) is not None),
            (Reason.LINK, stat.S_ISLNK(status.st_mode)),
            (Reason.SPECIAL, not stat.S_ISREG(status.st_mode)),
            (Reason.UNWANTED, not self._is_asked_for(path.relative_to(self.folder))),
            (Reason.EMPTY, status.st_size == 0),
            (Reason.TOO_LARGE, status.st_size > self.limit),
        )
        return next((reason for reason, is_so in tests if is_so), None)

    def _is_asked_for(self, relative: PurePath) -> bool:
        return not self.patterns or any(
            fnmatch.fnmatch(str(relative) if "/" in pattern else relative.name, pattern)
            for pattern in self.patterns
        )


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
