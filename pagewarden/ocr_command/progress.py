"""What the user sees: on a terminal a bar, otherwise a line for each file; at the end a summary."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pagewarden import bars

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from pagewarden.ocr_command import work


class Progress:
    """Counts the pages of all files; how many are in those not yet opened is estimated."""

    def __init__(self, console: Console, files: int) -> None:
        self._console = console
        self._files = files
        self._started = time.monotonic()
        self._opened = 0
        self._known = 0
        self._bar = bars.one_bar(console)
        self._task = self._bar.add_task("starting", total=None, unit="pages")

    @contextlib.contextmanager
    def bar(self) -> Iterator[None]:
        """Show the bar, on a terminal."""
        with self._bar if self._console.is_terminal else contextlib.nullcontext():
            yield

    def open(self, pages: int) -> None:
        """Take note of how many pages a file has."""
        self._opened += 1
        self._known += pages
        expected = self._known * self._files // self._opened
        self._bar.update(
            self._task, total=expected, description=f"file {self._opened} of {self._files}"
        )

    def advance(self) -> None:
        """Take note of a page that is done."""
        self._bar.advance(self._task)

    def finish(self, name: str, read: int = 0, failed: int = 0, where: Iterable[str] = ()) -> None:
        """Take note of a file that is done; without a page it was not read at all."""
        if not self._console.is_terminal:
            said = [f"{bars.count(read, 'page')} read" if read else "not read"]
            said += [f"{bars.count(failed, 'page')} not"] if failed else []
            self.say(f"{name}: {', '.join([*said, *where])}")

    def say(self, line: str) -> None:
        """Print a line as it is."""
        bars.say(self._console, line)

    def sum_up(self, outcome: work.Outcome) -> None:
        """Say what was done, what was not, and what it cost."""
        seconds = time.monotonic() - self._started
        self.say(f"{bars.count(outcome.read, 'page')} read in {seconds:.1f} s")
        if outcome.tokens:
            self.say(f"{outcome.tokens:,} tokens, about ${outcome.cost_usd:.4f}")
        if outcome.failures:
            self.say("Not read:")
        for failure in outcome.failures:
            self.say(f"  {failure}")
