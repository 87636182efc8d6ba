"""Commands that are imported when they are run; in the overview a line of help stands for each.

All of them together take more than a second to import, and nobody runs more than one.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import typer
from typer import core, main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Deferred:
    """Where a command is found: a function of its module, or a Typer with commands of its own.

    line is the first line of its help.
    """

    module: str
    line: str
    attribute: str = "command"

    def load(self) -> Any:  # noqa: ANN401  # typer keeps the class of commands to itself
        """Import the command."""
        found = getattr(importlib.import_module(self.module), self.attribute)
        if isinstance(found, typer.Typer):
            return main.get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command()(found)
        return main.get_command(alone)


def mount(app: typer.Typer, commands: Mapping[str, Deferred]) -> None:
    """Give the app these commands, by their names."""
    for name, deferred in commands.items():
        app.command(name, help=deferred.line, cls=_Stub)(deferred.load)


class _Stub(core.TyperCommand):
    """Is in the overview, and makes way for the command itself when that is called."""

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  # as above
        load = cast("Callable[[], Any]", self.callback)
        return load().make_context(*args, **options)
