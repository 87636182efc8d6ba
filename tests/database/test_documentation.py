"""docs/reference/state-machine.md speaks of the database as it is."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.database import queries

if TYPE_CHECKING:
    from tests.support import databases

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "state-machine.md").read_text("utf-8")

RULE = """
    select pg_get_constraintdef(oid) as rule from pg_constraint
    where pg_get_constraintdef(oid) like '%awaiting_file%queued_for_pdf%'
"""
NAMES = """
    select proname as name from pg_proc where pronamespace = 'public'::regnamespace
    union all
    select relname from pg_class where relnamespace = 'public'::regnamespace
"""


def _section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


async def test_every_status_is_described(database: databases.Database) -> None:
    """The table of statuses has all of them and no other."""
    found = await queries.one(await database.connect(), RULE)
    described = re.findall(r"^\| `(\w+)` \|", _section("Statuses"), re.MULTILINE)[1:]
    assert sorted(described) == sorted(re.findall(r"'(\w+)'", found["rule"]))


async def test_every_function_that_is_named_exists(database: databases.Database) -> None:
    """Whatever looks like a function or table of ours is one."""
    found = await queries.rows(await database.connect(), NAMES)
    endings = "documents?|case|lane|lock|pages|atomic|again|queue|v2|letters?|errors|logs"
    named = set(re.findall(rf"`(\w+_(?:{endings}))`", TEXT)) - {"dead_letter"}
    assert named - {row["name"] for row in found} == set()
    assert len(named) > 25


async def test_the_registry_shows_the_ids_that_are_described(database: databases.Database) -> None:
    """A document of each status is shown under the id of the table."""
    rows = re.findall(r"^\| ([1-6]) \| [A-Z_]+ \| (.*) \|$", TEXT, re.MULTILINE)
    described = {word: int(id_) for id_, words in rows for word in re.findall(r"`(\w+)`", words)}
    conn = await database.connect(claims={"role": "service_role"})
    await conn.execute(
        "insert into extraction_queue (document_source, document_name) values ('acte', 'a')"
    )
    shown = {}
    for status in described:
        await conn.execute("update documents set ocr_status = %s", (status,))
        row = await queries.one(conn, "select status_id from extraction_queue")
        shown[status] = row["status_id"]
    assert shown == described
    assert len(described) == 11


async def test_five_call_example_runs_as_printed(database: databases.Database) -> None:
    """Copied from the page into Python, it prints the document that it has just read."""
    example = _section("A document's life in five calls").split("```python\n")[1].split("```")[0]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", example,
        env=os.environ | {"PAGEWARDEN_DATABASE_URL": database.url("supabase_admin")},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0
    assert "letter.png" in printed.decode()
