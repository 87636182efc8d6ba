"""Progress bars, rates and counts shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import filesize, progress
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

BYTES = "bytes"


class AmountColumn(progress.ProgressColumn):
    """Completed and total amount; the task field `unit` is `BYTES` or a plural noun."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = progress.DownloadColumn()
        self._counts = progress.MofNCompleteColumn()

    def render(self, task: progress.Task) -> Text:
        """Render the amount."""
        column = self._bytes if task.fields["unit"] == BYTES else self._counts
        return column.render(task)


class RateColumn(progress.ProgressColumn):
    """Amount per second."""

    def render(self, task: progress.Task) -> Text:
        """Render the rate, once it is known."""
        unit, speed = task.fields["unit"], task.speed
        if speed is None:
            return Text()
        return Text(
            f"{filesize.decimal(int(speed))}/s" if unit == BYTES else f"{speed:.1f} {unit}/s"
        )


def print_line(console: Console, line: str) -> None:
    """Print a line without markup; replace characters that cannot be encoded, as in file names."""
    console.print(Text(line.encode(errors="replace").decode()), soft_wrap=True)


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun, in singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def make_progress_bar(console: Console) -> progress.Progress:
    """Make a bar that disappears at the end; its tasks need the field `unit`."""
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        AmountColumn(),
        RateColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
