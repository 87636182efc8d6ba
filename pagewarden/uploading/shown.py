"""What the user sees of uploads: on a terminal a bar for each file, otherwise lines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich import progress

from pagewarden import bars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from pagewarden import client

_PAGES = "pages"


class Shown:
    """The bars of all files that are under way."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            bars.Amount(),
            bars.Rate(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[state]}", markup=False),
            console=console,
            transient=True,
        )

    @contextlib.contextmanager
    def bars(self) -> Iterator[None]:
        """Show the bars, on a terminal."""
        with self._progress if self._console.is_terminal else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def bar(self, name: str) -> Iterator[Bar]:
        """Show a file for as long as it is under way."""
        bar = Bar(self._progress, name)
        try:
            yield bar
        finally:
            bar.remove()

    def tell(self, line: str) -> None:
        """Print a line about a file, unless its bar has told it."""
        if not self._console.is_terminal:
            self.say(line)

    def say(self, line: str) -> None:
        """Print a line as it is."""
        bars.say(self._console, line)


class Bar:
    """A file: first bytes that are sent, then pages that are read."""

    def __init__(self, shown: progress.Progress, name: str) -> None:
        self._progress = shown
        self._name = name
        self._task: progress.TaskID | None = None
        self._counts: tuple[str, int | None] = ("", None)

    def begin_sending(self, size: int) -> None:
        """Show how much there is to send."""
        self._begin(bars.BYTES, size, "uploading")

    def send(self, position: int) -> None:
        """Show how much of it is sent."""
        if self._task is not None:
            self._progress.update(self._task, completed=position)

    def read(self, seen: client.Progress) -> None:
        """Show how far the server is."""
        if self._task is None or self._counts != (_PAGES, seen.page_count):
            self._begin(_PAGES, seen.page_count, "")
        assert self._task is not None  # noqa: S101  # for the type checker
        self._progress.update(self._task, completed=seen.pages_done, state=_state(seen))

    def remove(self) -> None:
        """Show it no longer."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None

    def _begin(self, unit: str, total: int | None, state: str) -> None:
        """Begin anew: rich can neither forget a total nor a speed."""
        self.remove()
        self._task = self._progress.add_task(self._name, total=total, unit=unit, state=state)
        self._counts = (unit, total)


def _state(seen: client.Progress) -> str:
    words = ["reading" if seen.ahead is None else f"waiting, {seen.ahead:,} ahead"]
    if seen.seconds_left is not None:
        words.append(f"about {seen.seconds_left:.0f} s left")
    return ", ".join(words)
