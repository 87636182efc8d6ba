"""Plans of the statements that functions really run, by way of auto_explain."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden.local import cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import psycopg

    from tests.support import databases

_SETTINGS = (
    "auto_explain.log_min_duration = 0",
    "auto_explain.log_nested_statements = on",
    "auto_explain.log_analyze = on",
    "auto_explain.log_buffers = on",
    "auto_explain.log_timing = off",
    "auto_explain.log_format = json",
    "auto_explain.log_level = notice",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the server did for one statement."""

    statement: str
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Walk through all steps of the plan."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.get("Plans", ()))

    def indexes(self) -> set[str]:
        """Name the indexes that were used."""
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    def scanned(self) -> set[str]:
        """Name the tables that were read from end to end."""
        return {node["Relation Name"] for node in self.nodes() if node["Node Type"] == "Seq Scan"}

    def read(self) -> dict[str, int]:
        """Count the rows that were looked at, by table."""
        counts: dict[str, int] = {}
        for node in self.nodes():
            if "Relation Name" in node:
                rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
                found = int(rows * node["Actual Loops"])
                counts[node["Relation Name"]] = counts.get(node["Relation Name"], 0) + found
        return counts

    def blocks(self) -> int:
        """Count the pages that were touched."""
        return int(self.root["Shared Hit Blocks"]) + int(self.root["Shared Read Blocks"])


async def connect(database: databases.Database) -> psycopg.AsyncConnection:
    """Connect as a superuser who sees plans, acting as one of our services."""
    conn = await database.connect(cluster.SUPERUSER, claims={"role": "service_role"})
    await conn.execute("load 'auto_explain'")
    for setting in _SETTINGS:
        await conn.execute(f"set {setting}")
    return conn


@contextlib.asynccontextmanager
async def collected(conn: psycopg.AsyncConnection) -> AsyncIterator[list[Plan]]:
    """Collect the plan of every statement that runs meanwhile, nested ones included."""
    plans: list[Plan] = []
    take = taking(plans)
    conn.add_notice_handler(take)
    try:
        yield plans
    finally:
        conn.remove_notice_handler(take)


def taking(plans: list[Plan]) -> Callable[[psycopg.errors.Diagnostic], None]:
    """Make what collects plans from the notices of a connection."""

    def take(diagnostic: psycopg.errors.Diagnostic) -> None:
        _, found, text = (diagnostic.message_primary or "").partition("plan:\n")
        if found:
            plan = json.loads(text)
            plans.append(Plan(plan["Query Text"], plan["Plan"]))

    return take


async def explain_everything(conn: psycopg.AsyncConnection, database: str) -> None:
    """Have every later connection to the database say its plans as notices."""
    for setting in ("session_preload_libraries = 'auto_explain'", *_SETTINGS):
        await conn.execute(f'alter database "{database}" set {setting}')
