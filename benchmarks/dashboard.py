"""python -m benchmarks dashboard: how soon every page answers when there is much to show."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from pathlib import Path  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import httpx
import psycopg
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import system as systems
from pagewarden import database, errors
from pagewarden.database import tables
from pagewarden.local import cluster, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


TARGET_SECONDS = 0.3
FILTERS = (
    "/documents?status=dead_letter", "/documents?status=cancelled", "/documents?lane=pdf",
    "/documents?q=word77", "/documents?q=scan+4711", "/documents?q=zz", "/documents?bin=true",
)  # fmt: skip

_MENU = re.compile(r"<nav.*?</nav>", re.DOTALL)
_LINK = re.compile(r'href="(/[^"#]*)"')
_FIRST_SIGN_IN = re.compile(r"the first sign-in: (\S+) with the password\n\s+(\S+)")

out = Console(highlight=False)


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=1000, help="How many documents there are; a twentieth is dead.")
    ] = 100_000,
    rounds: Annotated[int, typer.Option(min=2, help="How often each page is fetched.")] = 40,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure how soon every page of the dashboard answers, in a system of its own."""
    found = run(documents=documents, rounds=rounds)
    if output is not None:
        output.write_text(found, encoding="utf-8")


def run(*, documents: int, rounds: int) -> str:
    """Measure, show the figures, and give all of them as JSON."""
    seconds = asyncio.run(_measure(documents, rounds))
    _show(seconds, documents)
    return json.dumps({"documents": documents, "seconds": seconds}, indent=1)


async def _measure(documents: int, rounds: int) -> dict[str, list[float]]:
    async with systems.running(engine="null") as system:
        with out.status(f"filling a database with {documents:,} documents"):
            await _fill(system, documents)
        async with httpx.AsyncClient(
            base_url=system.url, headers={"Origin": system.url}, timeout=60, trust_env=False
        ) as client:
            await sign_in(client, "\n".join(system.said))
            paths = [path async for path in _paths(client)]
            found: dict[str, list[float]] = {path: [] for path in paths}
            for _ in track(range(rounds), "fetching pages", console=out, transient=True):
                for path in paths:
                    found[path].append(await _seconds(client, path))
    return found


async def _fill(system: systems.System, documents: int) -> None:
    async with (
        server.running(system.home) as local,
        await database.connect_direct(local.url()) as connection,
    ):
        # Nobody is to read what has no file.
        for lane in await connection.select(tables.lanes, columns="lane"):
            await connection.pause_lane(lane=lane["lane"], reason="a measurement")
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await fill(conn, documents)


async def sign_in(client: httpx.AsyncClient, said: str) -> None:
    """Sign in as the first administrator, of whom the system said how."""
    match = _FIRST_SIGN_IN.search(said)
    if match is None:
        raise errors.PagewardenError(f"the system did not say how to sign in:\n{said}")
    form = {"email": match[1], "password": match[2], "next": "/"}
    answer = await client.post("/sign-in", data=form)
    if answer.status_code != httpx.codes.SEE_OTHER:
        raise errors.PagewardenError(f"signing in failed:\n{answer.text}")


async def _paths(client: httpx.AsyncClient) -> AsyncIterator[str]:
    """Find every page of the menu, the first page behind each, and what is filtered."""
    first = await client.get("/", follow_redirects=True)
    menu = _MENU.search(first.text)
    for path in _LINK.findall(menu[0]) if menu else ():
        yield path
        shown = _MENU.sub("", (await client.get(path)).text)
        links = [link for link in _LINK.findall(shown) if link.startswith(f"{path}/")]
        pages = [link for link in links if not link.endswith("/csv")]  # a download
        for link in pages[:1]:
            yield link.replace("&amp;", "&")
            if path == "/documents":
                yield f"{link}/review"
    for path in FILTERS:
        yield path


async def _seconds(client: httpx.AsyncClient, path: str) -> float:
    begun = time.perf_counter()
    answer = await client.get(path)
    passed = time.perf_counter() - begun
    if answer.status_code != httpx.codes.OK:
        raise errors.PagewardenError(f"{path} answered with {answer.status_code}:\n{answer.text}")
    return passed


def _show(seconds: dict[str, list[float]], documents: int) -> None:
    table = Table("page", "p50, ms", "p95, ms", "max, ms", title=f"{documents:,} documents")
    for path, values in seconds.items():
        shown = re.sub(r"[0-9a-f-]{36}", "…", path)
        numbers = (statistics.median(values), p95(values), max(values))
        table.add_row(shown, *(f"{1000 * number:.0f}" for number in numbers))
    out.print(table)
    slow = [path for path, values in seconds.items() if p95(values) > TARGET_SECONDS]
    said = f"slower: {', '.join(slow)}" if slow else "every page"
    out.print(f"p95 under {1000 * TARGET_SECONDS:.0f} ms: {said}")


def p95(values: Sequence[float]) -> float:
    """Give the value that 95 of 100 stay under."""
    return statistics.quantiles(values, n=100, method="inclusive")[94]


_STATEMENTS = Path(__file__).with_name("dashboard_fill.sql")


async def fill(conn: psycopg.AsyncConnection, documents: int) -> None:
    """Fill a new database; the connection is of a superuser, with autocommit."""
    await conn.execute("select set_config('bench.documents', %s, false)", (str(documents),))
    await conn.execute(_STATEMENTS.read_bytes())
    await conn.execute("vacuum analyze")
