"""`pagewarden dlq`: list, requeue and abandon dead letters."""

from __future__ import annotations

import asyncio
import datetime as dt
import getpass
import socket
import sys
import uuid
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from pagewarden.cli import program, progress
from pagewarden.documents import dead_letters
from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.database.rows import DeadLetterGroup, DocumentEvent, ListedDeadLetter

T = TypeVar("T")

app = typer.Typer(help="List, requeue and abandon dead letters.", no_args_is_help=True)

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_MAX_GROUPS = 20
_MAX_SHOWN = 200

Category = Annotated[
    str | None,
    typer.Option(help="Error category: transient, permanent, resource, configuration or unknown."),
]
Group = Annotated[
    str | None, typer.Option(help="Error group, as shown by list, such as 'page <n> is damaged'.")
]
Case = Annotated[
    uuid.UUID | None,
    typer.Option(metavar="ID", help="Only documents of this case. Default: all cases."),
]
Status = Annotated[
    str | None,
    typer.Option(
        help="Status: pending, investigating, requeued, manual or abandoned. "
        "Default: pending and investigating."
    ),
]
Name = Annotated[str | None, typer.Option(help="Part of the document name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[
    list[uuid.UUID] | None, typer.Argument(metavar="[ID]...", help="IDs, as shown by list.")
]
AllMatching = Annotated[
    bool,
    typer.Option(
        "--all-matching",
        help="Select all dead letters that match the filter, which is then required.",
    ),
]
Notes = Annotated[str | None, typer.Option(help="Reason, recorded with the decision.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("list")
def list_(  # noqa: PLR0913  # each is an option of the command
    *,
    category: Category = None,
    group: Group = None,
    case: Case = None,
    status: Status = None,
    name: Name = None,
    limit: Annotated[
        int, typer.Option(min=1, max=_MAX_SHOWN, help="Maximum number of dead letters to show.")
    ] = 50,
    json: Json = False,
) -> None:
    """List dead letters, grouped by error and individually, newest first."""
    filters = _make_filter(category, group, case, status, name)

    async def fetch(
        database: Database,
    ) -> tuple[list[DeadLetterGroup], list[ListedDeadLetter], int]:
        groups = await database.dead_letter_groups(filter=filters, limit=_MAX_GROUPS)
        letters = await database.list_dead_letters(filter=filters, limit=limit)
        return groups, letters, await database.count_dead_letters(filter=filters)

    groups, letters, count = _run_query(fetch)
    if json:
        out.print_json(data={"groups": groups, "letters": letters, "matching": count})
        return
    if not count:
        out.print("no dead letters match" if filters else "there are no dead letters")
        return
    out.print(
        _make_table(("letters", "category", "last failed", "error"), map(_make_group_row, groups))
    )
    out.print()
    out.print(
        _make_table(
            ("id", "status", "category", "document", "error"), map(_make_letter_row, letters)
        )
    )
    if count > len(letters):
        out.print(f"and {count - len(letters):,} more")


@app.command()
def show(
    dlq_id: Annotated[uuid.UUID, typer.Argument(metavar="ID", help="ID, as shown by list.")],
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with the history of its document, newest first."""

    async def fetch(
        database: Database,
    ) -> tuple[ListedDeadLetter | None, list[DocumentEvent]]:
        found = await database.list_dead_letters(filter={"ids": [str(dlq_id)]})
        if not found:
            return None, []
        document_id = found[0]["document_id"]
        return found[0], await database.document_history(document_id=document_id)

    letter, history = _run_query(fetch)
    if letter is None:
        err.print(f"there is no dead letter {dlq_id}; see `pagewarden dlq list`")
        sys.exit(program.SOME_FAILED)
    if json:
        out.print_json(data={"letter": letter, "history": history})
        return
    out.print(_make_table(("", ""), _make_detail_rows(letter), has_heading=False))
    out.print()
    out.print(
        _make_table(("time", "event", "attempt", "by", "message"), map(_make_event_row, history))
    )


@app.command()
def requeue(  # noqa: PLR0913  # each is an option of the command
    ids: Ids = None,
    *,
    all_matching: AllMatching = False,
    category: Category = None,
    group: Group = None,
    case: Case = None,
    status: Status = None,
    name: Name = None,
    notes: Notes = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Requeue dead letters with their retry counts reset; their history is kept."""
    filters = _make_filter(category, group, case, status, name)
    _resolve("requeue", _select(ids, filters, all_matching=all_matching), notes, yes=yes, json=json)


@app.command()
def abandon(  # noqa: PLR0913  # each is an option of the command
    ids: Ids = None,
    *,
    all_matching: AllMatching = False,
    category: Category = None,
    group: Group = None,
    case: Case = None,
    status: Status = None,
    name: Name = None,
    notes: Notes = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Abandon dead letters; they are not processed again unless they are requeued."""
    filters = _make_filter(category, group, case, status, name)
    _resolve("abandon", _select(ids, filters, all_matching=all_matching), notes, yes=yes, json=json)


def _make_filter(
    category: str | None,
    group: str | None,
    case: uuid.UUID | None,
    status: str | None,
    name: str | None,
) -> dict[str, Any]:
    values = {
        "error_category": category, "error_group": group, "case_id": case and str(case),
        "status": status, "name": name,
    }  # fmt: skip
    return {key: value for key, value in values.items() if value is not None}


def _select(
    ids: Sequence[uuid.UUID] | None, filters: Mapping[str, Any], *, all_matching: bool
) -> dict[str, Any]:
    """Return the filter for the requested dead letters; never all of them."""
    if ids and (all_matching or filters):
        raise typer.BadParameter(
            "specify either IDs, or a filter with --all-matching, but not both"
        )
    if ids:
        return {"ids": [str(each) for each in ids]}
    if not all_matching:
        raise typer.BadParameter("specify IDs, or a filter with --all-matching")
    if not filters:
        raise typer.BadParameter("--all-matching needs a filter, such as --category or --group")
    # Documents that fail during the confirmation were not counted in the question.
    return {**filters, "failed_before": dt.datetime.now(dt.UTC).isoformat()}


def _resolve(
    action: str, selection: Mapping[str, Any], notes: str | None, *, yes: bool, json: bool
) -> None:
    async def count(database: Database) -> int:
        return await database.count_dead_letters(filter=selection)

    async def act(database: Database) -> dead_letters.Outcome:
        return await dead_letters.resolve_all(database, selection, action, _add_operator(notes))

    if not yes:
        number = _run_query(count)
        typer.confirm(f"{action} {_format_count(number)}?", abort=True, err=True)
    outcome = _run_query(act)
    if json:
        skipped = [
            {name: value for name, value in each.items() if value is not None}
            for each in outcome.skipped
        ]
        out.print_json(data={"done": outcome.done, "skipped": skipped})
    else:
        _print_outcome(action, outcome)
    if outcome.skipped:
        sys.exit(program.SOME_FAILED)


def _print_outcome(action: str, outcome: dead_letters.Outcome) -> None:
    done = {"requeue": "requeued", "abandon": "abandoned"}[action]
    out.print(f"{done}: {_format_count(outcome.done)}")
    if outcome.skipped:
        out.print(f"skipped: {_format_count(len(outcome.skipped))}")
    for each in outcome.skipped:
        line = f"  {each['dlq_id']} {each['name'] or ''}: {each['message']}"
        out.print(_to_plain_text(line), soft_wrap=True)


def _format_count(count: int) -> str:
    return progress.format_count(count, "dead letter")


def _add_operator(operator_notes: str | None) -> str:
    """Add the operator to the notes: the database only sees a service account."""
    try:
        person = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        person = "unknown user"
    by = f"{person} on {socket.gethostname()}, using pagewarden dlq"
    return f"{operator_notes} ({by})" if operator_notes else by


def _run_query(query: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        async with stack.open_database(load_settings()) as database:
            return await query(database)

    return asyncio.run(run())


def _make_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, has_heading: bool = True
) -> Table:
    # IDs do not wrap, so that they can be copied.
    shown = [Column(name, no_wrap=name == "id") for name in columns]
    table = Table(*shown, show_header=has_heading, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_to_plain_text("-" if value is None else str(value)) for value in row))
    return table


def _to_plain_text(text: str) -> Text:
    """Return text without markup or control characters."""
    return Text("".join(char if char.isprintable() or char == "\n" else "·" for char in text))


def _make_group_row(group: DeadLetterGroup) -> Sequence[object]:
    last = _format_time(group["last_failed_at"])
    return group["letters"], ", ".join(group["error_categories"]), last, group["error_group"]


def _make_letter_row(letter: ListedDeadLetter) -> Sequence[object]:
    return (
        letter["dlq_id"], letter["status"], letter["error_category"], letter["document_name"],
        letter["last_error_message"],
    )  # fmt: skip


def _make_detail_rows(letter: ListedDeadLetter) -> Sequence[Sequence[object]]:
    reviewed_at = letter["reviewed_at"]
    first_failed_at = _format_time(letter["first_failed_at"])
    return (
        ("document", f"{letter['document_name']} ({letter['document_id']})"),
        ("case", f"{letter['case_name']} ({letter['case_id']})"),
        ("status", f"{letter['status']}; the document is {letter['ocr_status']}"),
        ("category", letter["error_category"]),
        ("error", letter["last_error_message"]),
        ("failures", f"{letter['failure_count']}, first at {first_failed_at}"),
        ("reviewed", reviewed_at and f"{_format_time(reviewed_at)}, {letter['reviewed_by']}"),
        ("notes", letter["resolution_notes"]),
    )


def _make_event_row(event: DocumentEvent) -> Sequence[object]:
    by = event["worker_id"] or event["person"] or "operator or machine"
    kind = event["kind"].replace("_", " ")
    return _format_time(event["at"]), kind, event["attempt"], by, event["message"]


def _format_time(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")
