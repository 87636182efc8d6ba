"""A program that uses the embedded server until its input ends; started by tests, and killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psycopg

from pagewarden.local import cluster, server


async def main(home: str, *bin_dir: str) -> None:
    """Use the server of home, and print its process id once it answers."""
    programs = Path(bin_dir[0]) if bin_dir else None
    async with server.running(Path(home), bin_dir=programs, durable=False) as local:
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url) as conn:
            found = await conn.execute(
                "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
            )
            print(*(await found.fetchone() or ()), flush=True)  # noqa: T201  # read by the test
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
