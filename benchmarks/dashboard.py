"""python -m benchmarks dashboard: response time of each dashboard page with a full database."""

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

out = Console(highlight=False)


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=1000, help="Number of documents; 5 % of them are dead letters.")
    ] = 100_000,
    rounds: Annotated[int, typer.Option(min=2, help="Number of times each page is fetched.")] = 40,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure the response time of every dashboard page in a temporary system."""
    figures = run(documents=documents, rounds=rounds)
    if output is not None:
        output.write_text(figures, encoding="utf-8")


def run(*, documents: int, rounds: int) -> str:
    """Measure, print a table, and return all figures as JSON."""
    seconds = asyncio.run(_measure(documents, rounds))
    _print(seconds, documents)
    return json.dumps({"documents": documents, "seconds": seconds}, indent=1)


async def _measure(documents: int, rounds: int) -> dict[str, list[float]]:
    async with systems.open_system(engine="null") as system:
        with out.status(f"filling a database with {documents:,} documents"):
            await _fill(system, documents)
        async with httpx.AsyncClient(
            base_url=system.url, headers={"Origin": system.url}, timeout=60, trust_env=False
        ) as client:
            await sign_in(client, "\n".join(system.output))
            paths = [path async for path in _find_paths(client)]
            seconds: dict[str, list[float]] = {path: [] for path in paths}
            for _ in track(range(rounds), "fetching pages", console=out, transient=True):
                for path in paths:
                    seconds[path].append(await _time_request(client, path))
    return seconds


async def _fill(system: systems.System, documents: int) -> None:
    async with (
        server.open_server(system.home) as local,
        await database.connect_direct(local.url()) as connection,
    ):
        # The filled-in documents have no files, so workers must not claim them.
        for lane in await connection.select(tables.lanes, columns="lane"):
            await connection.pause_lane(lane=lane["lane"], reason="benchmark")
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await fill(conn, documents)


async def sign_in(client: httpx.AsyncClient, output: str) -> None:
    """Sign in as the first administrator, whose password is in the output of the system."""
    match = systems.FIRST_SIGN_IN.search(output)
    if match is None:
        raise errors.PagewardenError(f"the system printed no password:\n{output}")
    form = {"email": match[1], "password": match[2], "next": "/"}
    response = await client.post("/sign-in", data=form)
    if response.status_code != httpx.codes.SEE_OTHER:
        raise errors.PagewardenError(f"sign-in failed:\n{response.text}")


async def _find_paths(client: httpx.AsyncClient) -> AsyncIterator[str]:
    """Find every page of the menu, the first page linked from each, and the filtered lists."""
    first = await client.get("/", follow_redirects=True)
    menu = _MENU.search(first.text)
    for path in _LINK.findall(menu[0]) if menu else ():
        yield path
        body = _MENU.sub("", (await client.get(path)).text)
        links = [link for link in _LINK.findall(body) if link.startswith(f"{path}/")]
        pages = [link for link in links if not link.endswith("/csv")]  # a download
        for link in pages[:1]:
            yield link.replace("&amp;", "&")
            if path == "/documents":
                yield f"{link}/review"
    for path in FILTERS:
        yield path


async def _time_request(client: httpx.AsyncClient, path: str) -> float:
    start = time.perf_counter()
    response = await client.get(path)
    seconds = time.perf_counter() - start
    if response.status_code != httpx.codes.OK:
        raise errors.PagewardenError(f"{path} returned {response.status_code}:\n{response.text}")
    return seconds


def _print(seconds: dict[str, list[float]], documents: int) -> None:
    table = Table("page", "p50, ms", "p95, ms", "max, ms", title=f"{documents:,} documents")
    for path, values in seconds.items():
        shown = re.sub(r"[0-9a-f-]{36}", "…", path)
        numbers = (statistics.median(values), compute_p95(values), max(values))
        table.add_row(shown, *(f"{1000 * number:.0f}" for number in numbers))
    out.print(table)
    slow = [path for path, values in seconds.items() if compute_p95(values) > TARGET_SECONDS]
    which = f"all but {', '.join(slow)}" if slow else "every page"
    out.print(f"p95 under {1000 * TARGET_SECONDS:.0f} ms: {which}")


def compute_p95(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[94]


_STATEMENTS = Path(__file__).with_name("dashboard_fill.sql")


async def fill(conn: psycopg.AsyncConnection, documents: int) -> None:
    """Fill a new database; the connection needs a superuser and autocommit."""
    await conn.execute("select set_config('bench.documents', %s, false)", (str(documents),))
    await conn.execute(_STATEMENTS.read_bytes())
    await conn.execute("vacuum analyze")
