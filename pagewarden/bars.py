"""What progress bars and summaries of several commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import filesize, progress
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

BYTES = "bytes"


class Amount(progress.ProgressColumn):
    """How much of how much; the field unit of a task is bytes, or things that are counted."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = progress.DownloadColumn()
        self._things = progress.MofNCompleteColumn()

    def render(self, task: progress.Task) -> Text:
        """Show it."""
        column = self._bytes if task.fields["unit"] == BYTES else self._things
        return column.render(task)


class Rate(progress.ProgressColumn):
    """How much in a second."""

    def render(self, task: progress.Task) -> Text:
        """Show it, once it is known."""
        unit, speed = task.fields["unit"], task.speed
        if speed is None:
            return Text()
        return Text(
            f"{filesize.decimal(int(speed))}/s" if unit == BYTES else f"{speed:.1f} {unit}/s"
        )


def say(console: Console, line: str) -> None:
    """Print a line as it is; of names that are no text, what can be shown."""
    console.print(Text(line.encode(errors="replace").decode()), soft_wrap=True)


def count(number: int, thing: str) -> str:
    """Say how many there are of something."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def one_bar(console: Console) -> progress.Progress:
    """Have a bar for all there is to do, which goes when it is done; tasks need the field unit."""
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        Amount(),
        Rate(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
