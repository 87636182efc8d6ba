"""pagewarden alerts: what is wrong, what is watched, and who is told."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden import settings
from pagewarden.alerts import words
from pagewarden.commands import ending
from pagewarden.local import stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pagewarden.database import Database, rows

T = TypeVar("T")

app = typer.Typer(help="See what is wrong, what is watched, and who is told.", no_args_is_help=True)

out = Console(highlight=False)

Rule = Annotated[str, typer.Argument(metavar="RULE", help="Its name, as list shows it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_COLOURS = {"critical": "red", "warning": "yellow"}


@app.command("list")
def list_(*, json: Json = False) -> None:
    """Show every rule with what it shows now; open alerts come first.

    Exit code 0: nothing is wrong. 1: an alert is open.
    """
    rules = _with_database(lambda database: database.list_alert_rules())
    if json:
        out.print_json(data=rules)
    else:
        out.print(_table(rules))
    if any(rule["alert_id"] for rule in rules):
        sys.exit(ending.SOME_FAILED)


@app.command()
def test(rule: Rule) -> None:
    """Tell everybody whom a rule would tell, as a test."""
    _with_database(lambda database: database.test_alert(rule=rule))
    out.print(f"{rule} will be told as a test within a minute; see the page Alerts for how it went")


@app.command()
def silence(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="Its name. Default: all of them.")
    ] = None,
    *,
    minutes: Annotated[int, typer.Option(min=1, max=43_200, help="For how long.")] = 60,
    reason: Annotated[str, typer.Option(help="Why, for those who wonder.")],
) -> None:
    """Tell nobody for a while; what still is broken afterwards is told then."""
    answer = _with_database(
        lambda database: database.silence_alerts(minutes=minutes, reason=reason, rule=rule)
    )
    out.print(f"silent until {answer['ends_at']}; `pagewarden alerts speak {answer['silence_id']}`")


@app.command()
def speak(
    silence_id: Annotated[int, typer.Argument(metavar="ID", help="As silence said.")],
) -> None:
    """End a silence before its time."""
    answer = _with_database(lambda database: database.end_silence(silence_id=silence_id))
    out.print("it is over" if answer["success"] else answer["message"])
    if not answer["success"]:
        sys.exit(ending.SOME_FAILED)


def _with_database(ask: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        async with stack.connected(settings.load()) as database:
            return await ask(database)

    return asyncio.run(run())


def _table(rules: Sequence[rows.ListedAlertRule]) -> Table:
    table = Table("rule", "state", "now", "limit", "watches", box=None, pad_edge=False)
    for rule in rules:
        table.add_row(
            rule["rule"],
            _state(rule),
            words.amount(rule["value"], rule["unit"]),
            f"{rule['comparison']} {words.amount(rule['threshold'], rule['unit'])}",
            Text(rule["description"] + (f": {rule['detail']}" if rule["detail"] else "")),
        )
    return table


def _state(rule: rows.ListedAlertRule) -> Text:
    if not rule["enabled"]:
        return Text("off", "dim")
    if rule["alert_id"]:
        since = str(rule["fired_at"])[:16].replace("T", " ")
        silenced = ", silenced" if rule["silenced"] else ""
        return Text(f"{rule['severity']} since {since}{silenced}", _COLOURS[rule["severity"]])
    if rule["broken_since"]:
        return Text("broken, not yet for long", "yellow")
    return Text("well" if rule["evaluated_at"] else "not yet looked at", "green")
