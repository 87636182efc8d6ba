"""`pagewarden alerts`: list, test and silence alerts."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden.cli import program
from pagewarden.local import stack
from pagewarden.notifications import alerts
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pagewarden.database import Database, rows

T = TypeVar("T")

app = typer.Typer(help="List, test and silence alerts.", no_args_is_help=True)

out = Console(highlight=False)

Rule = Annotated[str, typer.Argument(metavar="RULE", help="Name of the rule, as shown by list.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_COLOURS = {"critical": "red", "warning": "yellow"}


@app.command("list")
def list_(*, json: Json = False) -> None:
    """List all alert rules with their current values, open alerts first.

    Exit code 0: no alert is open. 1: an alert is open.
    """
    rules = _run_query(lambda database: database.list_alert_rules())
    if json:
        out.print_json(data=rules)
    else:
        out.print(_make_table(rules))
    if any(rule["alert_id"] for rule in rules):
        sys.exit(program.SOME_FAILED)


@app.command()
def test(rule: Rule) -> None:
    """Send a test notification to all recipients of a rule."""
    _run_query(lambda database: database.test_alert(rule=rule))
    out.print(
        f"a test alert for {rule} will be sent within a minute; see the Alerts page for the outcome"
    )


@app.command()
def silence(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="Name of the rule. Default: all rules.")
    ] = None,
    *,
    minutes: Annotated[int, typer.Option(min=1, max=43_200, help="Duration in minutes.")] = 60,
    reason: Annotated[str, typer.Option(help="Reason, shown to other users.")],
) -> None:
    """Silence notifications temporarily; alerts still open at the end are then sent."""
    answer = _run_query(
        lambda database: database.silence_alerts(minutes=minutes, reason=reason, rule=rule)
    )
    out.print(
        f"silenced until {answer['ends_at']}; to end the silence early, run "
        f"`pagewarden alerts unsilence {answer['silence_id']}`"
    )


@app.command()
def unsilence(
    silence_id: Annotated[int, typer.Argument(metavar="ID", help="ID printed by silence.")],
) -> None:
    """End a silence early."""
    answer = _run_query(lambda database: database.end_silence(silence_id=silence_id))
    out.print("the silence has ended" if answer["success"] else answer["message"])
    if not answer["success"]:
        sys.exit(program.SOME_FAILED)


def _run_query(query: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        async with stack.open_database(load_settings()) as database:
            return await query(database)

    return asyncio.run(run())


def _make_table(rules: Sequence[rows.ListedAlertRule]) -> Table:
    table = Table("rule", "state", "value", "limit", "description", box=None, pad_edge=False)
    for rule in rules:
        table.add_row(
            rule["rule"],
            _format_state(rule),
            alerts.format_amount(rule["value"], rule["unit"]),
            f"{rule['comparison']} {alerts.format_amount(rule['threshold'], rule['unit'])}",
            Text(rule["description"] + (f": {rule['detail']}" if rule["detail"] else "")),
        )
    return table


def _format_state(rule: rows.ListedAlertRule) -> Text:
    if not rule["enabled"]:
        return Text("off", "dim")
    if rule["alert_id"]:
        since = str(rule["fired_at"])[:16].replace("T", " ")
        silenced = ", silenced" if rule["silenced"] else ""
        return Text(f"{rule['severity']} since {since}{silenced}", _COLOURS[rule["severity"]])
    if rule["broken_since"]:
        return Text("pending", "yellow")
    return Text("ok" if rule["evaluated_at"] else "not yet evaluated", "green")
