#!/usr/bin/env python3
"""Compare the CPU time of claims and completions with two sets of migrations, interleaved.

    PYTHONPATH=. .venv/bin/python scripts/queue_cpu.py OTHER_MIGRATIONS [--rounds N]

To compare with the previous commit, run git worktree add /tmp/before HEAD~1 and pass
/tmp/before/supabase/migrations. The result is the CPU time of the server process for each document,
as the scheduler measures it (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from pagewarden.local import bootstrap, cluster, migrations, server

OWN = Path(__file__).resolve().parents[1] / "supabase" / "migrations"
BATCHES = {1: 300, 10: 100, 100: 20}

_ADD = """
insert into documents (
  case_id, name, lane, ocr_status, dropbox_path, mime_type, sha256, size_bytes)
select %s, gen_random_uuid()::text, 'image', 'queued', 'x', 'image/png',
  encode(sha256(random()::text::bytea), 'hex'), 1
from generate_series(1, %s)
"""
_CLAIM = "select array_agg(id), array_agg(lock_token) from claim_documents('w', '{image}', %s, 600)"
_ONE = "select process_ocr_atomic(%s, '{}', 0.9, 1, %s, 'null', '1')"
_MANY = """
select count(*) from complete_documents(
  %s::uuid[], %s::uuid[], array_fill('{}'::jsonb, array[%s]),
  p_engine => 'null', p_version => '1')
"""


@dataclass
class Side:
    """A database, and the milliseconds of CPU of each round by (call, batch size)."""

    conn: psycopg.Connection
    case: object
    pid: int
    costs: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    @classmethod
    def open(cls, url: str) -> Side:
        """Connect, and create a case for the documents."""
        conn = psycopg.connect(url, autocommit=True)
        user = uuid.uuid4()
        conn.execute("insert into auth.users (id, email) values (%s, 'a@example.org')", (user,))
        query = "insert into cases (user_id, name) values (%s, 'c') returning id"
        ((case,),) = conn.execute(query, (user,)).fetchall()
        return cls(conn, case, conn.info.backend_pid)

    def cpu_milliseconds(self) -> float:
        """Read the CPU time of the server process, in milliseconds."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e6

    def run_round(self, batch: int, times: int) -> None:
        """Claim and complete `times` batches."""
        self.conn.execute(_ADD.encode(), (self.case, batch * times))
        start = self.cpu_milliseconds()
        rows = [self.conn.execute(_CLAIM.encode(), (batch,)).fetchone() for _ in range(times)]
        claimed = self.cpu_milliseconds()
        for row in rows:
            assert row is not None  # noqa: S101  # the documents were just added
            ids, tokens = row
            if batch == 1:
                self.conn.execute(_ONE.encode(), (ids[0], tokens[0]))
            else:
                self.conn.execute(_MANY.encode(), (ids, tokens, batch))
        for call, milliseconds in (
            ("claim", claimed - start),
            ("complete", self.cpu_milliseconds() - claimed),
        ):
            self.costs.setdefault((call, batch), []).append(milliseconds / (batch * times))


async def _create_database(local: server.LocalServer, name: str, folder: Path) -> str:
    with psycopg.connect(local.url(cluster.SUPERUSER), autocommit=True) as conn:
        conn.execute(f"create database {name}".encode())
    await bootstrap.bootstrap(local.url(cluster.SUPERUSER, name), password=local.password)
    await migrations.migrate(local.url("postgres", name), folder=folder)
    return local.url(cluster.SUPERUSER, name)


async def main() -> int:
    """Run all rounds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # noqa: ASYNC240  # nothing else runs
        async with server.open_server(Path(folder, "home"), durable=False) as local:
            other = Side.open(await _create_database(local, "other", options.other))
            own = Side.open(await _create_database(local, "own", OWN))
            for number in range(options.rounds):
                for batch, times in BATCHES.items():
                    for side in (own, other)[:: 1 if number % 2 else -1]:
                        side.run_round(batch, times)
    print("| call | batch | other, ms | own, ms | own / other |\n|---|---|---|---|---|")  # noqa: T201
    for key, costs in own.costs.items():
        before, now = statistics.median(other.costs[key]), statistics.median(costs)
        line = f"| {key[0]} | {key[1]} | {before:.3f} | {now:.3f} | {now / before:.2f} |"
        print(line)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
