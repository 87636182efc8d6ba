"""A server of its own with the real pg_cron, whose minutes are shorter."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pagewarden.local import account, migrations, server
from tests.support import clock, databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# pg_cron starts jobs when a minute begins; this many times as often as by the real clock.
SPEED = 6
_NAME = "pagewarden"
# In background workers the jobs need no connection, and so no password.
_CONFIGURATION = f"""
shared_preload_libraries = 'pg_cron'
cron.database_name = '{_NAME}'
cron.use_background_workers = on
max_worker_processes = 20
"""


def find_programs(other: Path | None) -> Path | None:
    """Return the programs of a Postgres with pg_cron: another server's, or one of Debian's."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in (*([other] if other else []), *candidates):
        command = [str(folder / "pg_config"), "--sharedir"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            if Path(found.stdout.strip(), "extension", "pg_cron.control").exists():
                return folder
    return None


@contextlib.asynccontextmanager
async def open_database(programs: Path) -> AsyncIterator[databases.Database]:
    """Start the server, install pg_cron as its superuser, and migrate the database."""
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    try:
        async with server.open_server(home, bin_dir=programs, durable=False) as local:
            await databases.prepare_template(local, databases.BARE)
            await databases.clone(local, databases.BARE, _NAME)
            account.append_text(local.cluster.data_folder / "postgresql.conf", _CONFIGURATION)
            with pytest.MonkeyPatch.context() as patch:
                for name, value in clock.make_fast_environment(SPEED).items():
                    patch.setitem(account._ENVIRONMENT, name, value)  # noqa: SLF001
                await local.restart()
            async with databases.connect_superuser(local, _NAME) as conn:
                await conn.execute("create extension pg_cron")
                await conn.execute("grant usage on schema cron to postgres")
            database = databases.Database(local, _NAME)
            await migrations.migrate(database.url())
            try:
                yield database
            finally:
                await database.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
