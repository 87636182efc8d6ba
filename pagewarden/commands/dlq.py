"""pagewarden dlq: the dead letters, what happened to each, and what is to become of them."""

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

from pagewarden import dead_letters, settings
from pagewarden.commands import ending
from pagewarden.local import stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from pagewarden.database import Database, rows

T = TypeVar("T")

app = typer.Typer(
    help="See what machines gave up on, and say what is to become of it.", no_args_is_help=True
)

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_GROUPS = 20
_MOST = 200

Category = Annotated[
    str | None,
    typer.Option(help="transient, permanent, resource, configuration or unknown."),
]
Group = Annotated[
    str | None, typer.Option(help="What went wrong, as list shows it: 'page <n> is damaged'.")
]
Case = Annotated[uuid.UUID | None, typer.Option(metavar="ID", help="The case they belong to.")]
Status = Annotated[
    str | None,
    typer.Option(
        help="pending, investigating, requeued, manual or abandoned. Default: the first two."
    ),
]
Name = Annotated[str | None, typer.Option(help="A part of the name of the document.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Ids = Annotated[
    list[uuid.UUID] | None, typer.Argument(metavar="[ID]...", help="Ids, as list shows them.")
]
AllMatching = Annotated[
    bool,
    typer.Option("--all-matching", help="All that match the filter, of which there must be one."),
]
Notes = Annotated[str | None, typer.Option(help="Why, for those who look at it later.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_(  # noqa: PLR0913  # each is an option of the command
    *,
    category: Category = None,
    group: Group = None,
    case: Case = None,
    status: Status = None,
    name: Name = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="How many to show.")] = 50,
    json: Json = False,
) -> None:
    """Show the dead letters that match: by what went wrong, and one by one, the last first."""
    chosen = _filter(category, group, case, status, name)

    async def ask(
        database: Database,
    ) -> tuple[list[rows.DeadLetterGroup], list[rows.ListedDeadLetter], int]:
        groups = await database.dead_letter_groups(filter=chosen, limit=_GROUPS)
        letters = await database.list_dead_letters(filter=chosen, limit=limit)
        return groups, letters, await database.count_dead_letters(filter=chosen)

    groups, letters, count = _with_database(ask)
    if json:
        out.print_json(data={"groups": groups, "letters": letters, "matching": count})
        return
    if not count:
        out.print("no dead letter matches" if chosen else "there are no dead letters")
        return
    out.print(_table(("letters", "category", "last failed", "error"), map(_group_row, groups)))
    out.print()
    out.print(_table(("id", "status", "category", "document", "error"), map(_row, letters)))
    if count > len(letters):
        out.print(f"and {count - len(letters):,} more")


@app.command()
def show(
    dlq_id: Annotated[uuid.UUID, typer.Argument(metavar="ID", help="Its id, as list shows it.")],
    *,
    json: Json = False,
) -> None:
    """Show a dead letter with everything that happened to its document, newest first."""

    async def ask(
        database: Database,
    ) -> tuple[rows.ListedDeadLetter | None, list[rows.DocumentEvent]]:
        found = await database.list_dead_letters(filter={"ids": [str(dlq_id)]})
        if not found:
            return None, []
        document_id = found[0]["document_id"]
        return found[0], await database.document_history(document_id=document_id)

    letter, history = _with_database(ask)
    if letter is None:
        err.print(f"there is no dead letter {dlq_id}; see `pagewarden dlq list`")
        sys.exit(ending.SOME_FAILED)
    if json:
        out.print_json(data={"letter": letter, "history": history})
        return
    out.print(_table(("", ""), _facts(letter), heading=False))
    out.print()
    out.print(_table(("when", "what", "attempt", "by", "message"), map(_event_row, history)))


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
    """Have them read again, with their counts at zero; what happened so far stays known."""
    chosen = _filter(category, group, case, status, name)
    _decide("requeue", _wanted(ids, chosen, all_matching=all_matching), notes, yes=yes, json=json)


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
    """Give them up: nobody will read them, unless somebody has them read again."""
    chosen = _filter(category, group, case, status, name)
    _decide("abandon", _wanted(ids, chosen, all_matching=all_matching), notes, yes=yes, json=json)


def _filter(
    category: str | None,
    group: str | None,
    case: uuid.UUID | None,
    status: str | None,
    name: str | None,
) -> dict[str, Any]:
    given = {
        "error_category": category, "error_group": group, "case_id": case and str(case),
        "status": status, "name": name,
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


def _wanted(
    ids: Sequence[uuid.UUID] | None, chosen: Mapping[str, Any], *, all_matching: bool
) -> dict[str, Any]:
    """Say which are meant; never all there are."""
    if ids and (all_matching or chosen):
        raise typer.BadParameter("name ids, or a filter with --all-matching, not both")
    if ids:
        return {"ids": [str(each) for each in ids]}
    if not all_matching:
        raise typer.BadParameter("name ids, or a filter with --all-matching")
    if not chosen:
        raise typer.BadParameter("--all-matching needs a filter, such as --category or --group")
    # What fails while one thinks about it was not counted.
    return {**chosen, "failed_before": dt.datetime.now(dt.UTC).isoformat()}


def _decide(
    action: str, wanted: Mapping[str, Any], notes: str | None, *, yes: bool, json: bool
) -> None:
    async def count(database: Database) -> int:
        return await database.count_dead_letters(filter=wanted)

    async def act(database: Database) -> dead_letters.Outcome:
        return await dead_letters.resolve(database, wanted, action, _signed(notes))

    if not yes:
        number = _with_database(count)
        typer.confirm(f"{action} {_letters(number)}?", abort=True, err=True)
    outcome = _with_database(act)
    if json:
        skipped = [
            {name: value for name, value in each.items() if value is not None}
            for each in outcome.skipped
        ]
        out.print_json(data={"done": outcome.done, "skipped": skipped})
    else:
        _say(action, outcome)
    if outcome.skipped:
        sys.exit(ending.SOME_FAILED)


def _say(action: str, outcome: dead_letters.Outcome) -> None:
    done = {"requeue": "in the queue again", "abandon": "abandoned"}[action]
    out.print(f"{done}: {_letters(outcome.done)}")
    if outcome.skipped:
        out.print(f"skipped: {_letters(len(outcome.skipped))}")
    for each in outcome.skipped:
        said = f"  {each['dlq_id']} {each['name'] or ''}: {each['message']}"
        out.print(_text(said), soft_wrap=True)


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _signed(notes: str | None) -> str:
    """Say who it was: the database knows only that it was one of our services."""
    try:
        person = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        person = "somebody"
    by = f"{person} at {socket.gethostname()}, with pagewarden dlq"
    return f"{notes} ({by})" if notes else by


def _with_database(ask: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        async with stack.connected(settings.load()) as database:
            return await ask(database)

    return asyncio.run(run())


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, heading: bool = True
) -> Table:
    # An id is there to be copied.
    shown = [Column(name, no_wrap=name == "id") for name in columns]
    table = Table(*shown, show_header=heading, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_text("-" if value is None else str(value)) for value in row))
    return table


def _text(said: str) -> Text:
    """Show it as it is: nothing in it is markup, and nothing in it moves the cursor."""
    return Text("".join(sign if sign.isprintable() or sign == "\n" else "·" for sign in said))


def _group_row(group: rows.DeadLetterGroup) -> Sequence[object]:
    last = _moment(group["last_failed_at"])
    return group["letters"], ", ".join(group["error_categories"]), last, group["error_group"]


def _row(letter: rows.ListedDeadLetter) -> Sequence[object]:
    return (
        letter["dlq_id"], letter["status"], letter["error_category"], letter["document_name"],
        letter["last_error_message"],
    )  # fmt: skip


def _facts(letter: rows.ListedDeadLetter) -> Sequence[Sequence[object]]:
    decided = letter["reviewed_at"] and f"{_moment(letter['reviewed_at'])}, {letter['reviewed_by']}"
    return (
        ("document", f"{letter['document_name']} ({letter['document_id']})"),
        ("case", f"{letter['case_name']} ({letter['case_id']})"),
        ("status", f"{letter['status']}; the document is {letter['ocr_status']}"),
        ("category", letter["error_category"]),
        ("error", letter["last_error_message"]),
        ("failed", f"{letter['failure_count']} times, first {_moment(letter['first_failed_at'])}"),
        ("decided", decided),
        ("notes", letter["resolution_notes"]),
    )


def _event_row(event: rows.DocumentEvent) -> Sequence[object]:
    by = event["worker_id"] or event["person"] or "operator or machine"
    what = event["kind"].replace("_", " ")
    return _moment(event["at"]), what, event["attempt"], by, event["message"]


def _moment(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")
