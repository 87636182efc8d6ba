"""One database for the tests of a module, emptied for each: a clone for each would take longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from pagewarden.local import cluster
from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server

# Everything but what the migrations themselves put in. Without triggers and foreign keys to look
# after, deleting a few rows is much quicker than giving twenty tables and their indexes new files.
_EMPTY = """
do $$
declare
  v_table text;
begin
  set local session_replication_role = replica;
  for v_table in
    select format('%I.%I', n.nspname, c.relname)
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind = 'r' and (
      n.nspname = 'pgmq' and c.relname ~ '^[qa]_'
      or n.nspname in ('public', 'private')
      and c.relname not in (
        'lanes', 'edge_function_config', 'sweep_state', 'volume_state', 'alert_metrics',
        'alert_rules'
      )
    )
  loop
    execute 'delete from ' || v_table;
  end loop;
  update public.lanes
  set paused_at = null, pause_kind = null, pause_reason = null, paused_by = null, probe_at = null,
      probe_token = null, recovered_at = null, outage_document_id = null
  where paused_at is not null or recovered_at is not null;
  update private.sweep_state set swept_at = null, resumed_at = null;
  update private.volume_state
  set passed_at = null, passed_by = null, swept_at = null, reconciled_at = null, is_hinted = false;
end;
$$
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def module_database(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[databases.Database]:
    """Give the module a migrated database of its own."""
    async with databases.cloned(local_server, migrated_template) as database:
        yield database


@pytest.fixture
async def emptied(module_database: databases.Database) -> AsyncIterator[databases.Database]:
    """Give the test the module's database without any documents, cases or traces of them.

    For tests that change no settings of lanes, no switches and no rights.
    """
    database = databases.Database(module_database.server, module_database.name)
    conn = await database.connect(cluster.SUPERUSER)
    await conn.execute(_EMPTY)
    yield database
    await database.close()
