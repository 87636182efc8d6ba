"""What the user sees of an import: on a terminal one bar for all files, otherwise lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import bars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich import progress
    from rich.console import Console

    from pagewarden.importing import tree


class Shown:
    """Counts files, and the bytes by which the time that is left is told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._files = 0
        self._done = 0
        self._progress = bars.one_bar(console)
        self._task: progress.TaskID | None = None

    @contextlib.contextmanager
    def bar(self, files: Sequence[tree.Found]) -> Iterator[None]:
        """Show a bar for these files, on a terminal."""
        self._files, self._done = len(files), 0
        total = sum(file.stamp.size for file in files)
        with self._progress if self._console.is_terminal else contextlib.nullcontext():
            self._task = self._progress.add_task("", total=total, unit=bars.BYTES)
            self._describe()
            try:
                yield
            finally:
                self._progress.remove_task(self._task)
                self._task = None

    @contextlib.contextmanager
    def file(self, found: tree.Found) -> Iterator[File]:
        """Show a file for as long as it is under way; in the end it counts as done."""
        shown = File(self, found.stamp.size)
        yield shown
        shown.send(found.stamp.size)
        self._done += 1
        self._describe()

    def advance(self, size: int) -> None:
        """Show that so many bytes more, or less, are done."""
        if self._task is not None:
            self._progress.advance(self._task, size)

    def tell(self, line: str) -> None:
        """Print a line about a file, unless the bar has told it."""
        if not self._console.is_terminal:
            self.say(line)

    def say(self, line: str) -> None:
        """Print a line as it is."""
        bars.say(self._console, line)

    def _describe(self) -> None:
        if self._task is not None:
            said = f"{self._done:,} of {bars.count(self._files, 'file')}"
            self._progress.update(self._task, description=said)


class File:
    """A file that is sent; when it is sent again, what was counted is taken back."""

    def __init__(self, shown: Shown, size: int) -> None:
        self._shown = shown
        self._size = size
        self._position = 0

    def send(self, position: int) -> None:
        """Show how much of it is sent."""
        position = min(position, self._size)
        self._shown.advance(position - self._position)
        self._position = position
