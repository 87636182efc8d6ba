"""pagewarden docs: what is in the documents."""

from __future__ import annotations

import asyncio
import uuid  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from pagewarden import client, headlines, settings
from pagewarden.commands import options  # noqa: TC001  # typer reads the annotations

app = typer.Typer(help="Search in what was read.", no_args_is_help=True)

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_MOST = 200


@app.callback()
def _docs() -> None:
    """Search in what was read."""


@app.command()
def search(  # noqa: PLR0913  # each is an option of the command
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words; "a phrase", -not this, this or that.')
    ],
    *,
    case: Annotated[
        uuid.UUID | None, typer.Option(metavar="ID", help="Only in this case. Default: in all.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Find words of this language in all their forms: de, fr.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="How many hits to show.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    url: options.Url = None,
) -> None:
    """Search in the text of documents: the best pages first, with what was found.

    Whoever signed in with `pagewarden login` finds what that person may see;
    otherwise, on the machine of the server, all documents are searched.
    """
    if not query.strip():
        raise typer.BadParameter("say what to search for")
    wanted = client.Search(query, str(case) if case else None, language, limit)
    hits = asyncio.run(_search(settings.load(), url, wanted))
    if json:
        out.print_json(data=[hit.model_dump() for hit in hits])
        return
    for hit in hits:
        out.print(_shown(hit))
    if not hits:
        err.print(_nothing(wanted))


async def _search(
    chosen: settings.Settings, url: str | None, wanted: client.Search
) -> list[client.Hit]:
    async with client.open_client(chosen, url) as server:
        return await server.search(wanted)


def _shown(hit: client.Hit) -> Text:
    """Write a hit in two lines; what was found is coloured where there is a terminal."""
    shown = Text(_printable(hit.name), style="bold")
    shown.append(f", page {hit.page_number}", style="not bold")
    shown.append(f"  {hit.document_id}", style="dim not bold")
    shown.append("\n  ")
    for is_hit, text in headlines.pieces(hit.headline):
        style = "bold black on yellow" if is_hit else "not bold"
        shown.append(_printable(text), style=style)
    return shown


def _printable(text: str) -> str:
    """Leave out what would command a terminal; ends of lines become spaces."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _nothing(wanted: client.Search) -> Text:
    where = "in this case" if wanted.case_id else "in any document you may see"
    said = f"Nothing {where} says {_printable(wanted.query)!r}."
    if wanted.language is None:
        said += " With --language, words are found in all their forms."
    return Text(said)
