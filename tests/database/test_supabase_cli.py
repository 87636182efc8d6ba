from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden.local import migrations
from tests.database import queries
from tests.support import supabase_cli

if TYPE_CHECKING:
    from tests.support import databases

pytestmark = pytest.mark.skipif(
    not supabase_cli.PROGRAM.exists(), reason="the Supabase CLI is not installed on this platform"
)


async def test_supabase_cli_applies_our_migrations_and_finds_nothing_to_criticise(
    bare_database: databases.Database,
) -> None:
    """`db push` applies everything to a bare database; `db advisors` has no ERROR and no WARN."""
    url = bare_database.tcp_url()

    pushed = await supabase_cli.push(url, seed=True)
    findings = [
        f"{found['level']} {found['name']}: {found['detail']}"
        for found in await supabase_cli.run_advisors(url)
        if found["level"] in {"ERROR", "WARN"}
    ]

    assert len(pushed) == len(migrations.list_migrations())
    assert await migrations.list_pending(url) == []
    assert findings == []
    conn = await bare_database.connect()
    assert await queries.violations(conn) == []
    assert await queries.rows(conn, "select distinct ocr_status from documents") == [
        {"ocr_status": "completed"}
    ]


async def test_supabase_cli_has_nothing_to_push_after_our_own_runner(
    database: databases.Database,
) -> None:
    """The CLI agrees that everything our runner applied is applied."""
    assert await supabase_cli.push(database.tcp_url()) == []


async def test_advisors_see_what_is_wrong(bare_database: databases.Database) -> None:
    """A table open to everybody is found, so an empty list means something."""
    conn = await bare_database.connect()
    await conn.execute("create table public.open (id int)")
    await conn.execute("grant select on public.open to anon")

    findings = await supabase_cli.run_advisors(bare_database.tcp_url())

    assert "rls_disabled_in_public" in {found["name"] for found in findings}
