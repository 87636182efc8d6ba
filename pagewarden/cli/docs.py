"""`pagewarden docs`: search documents."""

from __future__ import annotations

import asyncio
import uuid  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from pagewarden import client
from pagewarden.cli import options  # noqa: TC001  # typer reads the annotations
from pagewarden.documents import pages
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


app = typer.Typer(help="Search documents.", no_args_is_help=True)

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_MAX_HITS = 200


@app.callback()
def _docs() -> None:
    """Search documents."""


@app.command()
def search(  # noqa: PLR0913  # each is an option of the command
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help='Search terms; supports "quoted phrases", -excluded words, and OR.',
        ),
    ],
    *,
    case: Annotated[
        uuid.UUID | None, typer.Option(metavar="ID", help="Only this case. Default: all cases.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="Also match inflected forms in this language, such as de or fr."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=_MAX_HITS, help="Maximum number of hits to show.")
    ] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    url: options.Url = None,
) -> None:
    """Search the text of documents and show the best matching pages.

    After `pagewarden login`, the search covers the documents you may see. On
    the server itself, without a login, it covers all documents.
    """
    if not query.strip():
        raise typer.BadParameter("the query is empty")
    search = client.SearchQuery(query, str(case) if case else None, language, limit)
    hits = asyncio.run(_search(load_settings(), url, search))
    if json:
        out.print_json(data=[hit.model_dump() for hit in hits])
        return
    for hit in hits:
        out.print(_format_hit(hit))
    if not hits:
        err.print(_format_no_hits(search))


async def _search(
    settings: Settings, url: str | None, search: client.SearchQuery
) -> list[client.SearchHit]:
    async with client.open_client(settings, url) as server:
        return await server.search(search)


def _format_hit(hit: client.SearchHit) -> Text:
    """Format a hit in two lines, with the matching words highlighted."""
    shown = Text(_replace_unprintable(hit.name), style="bold")
    shown.append(f", page {hit.page_number}", style="not bold")
    shown.append(f"  {hit.document_id}", style="dim not bold")
    shown.append("\n  ")
    for is_hit, text in pages.split_headline(hit.headline):
        style = "bold black on yellow" if is_hit else "not bold"
        shown.append(_replace_unprintable(text), style=style)
    return shown


def _replace_unprintable(text: str) -> str:
    """Replace control characters and line breaks with spaces."""
    return "".join(char if char.isprintable() else " " for char in text)


def _format_no_hits(search: client.SearchQuery) -> Text:
    where = "in this case" if search.case_id else "in the documents you may see"
    message = f"No matches for {_replace_unprintable(search.query)!r} {where}."
    if search.language is None:
        message += " With --language, inflected forms match too."
    return Text(message)
