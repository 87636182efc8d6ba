"""A program that uses the embedded server until the end of its input; tests start and kill it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psycopg

from pagewarden.local import cluster, server


async def main(home: str, *bin_dir: str) -> None:
    """Use the server of a home folder, and print its process id when it is ready."""
    programs = Path(bin_dir[0]) if bin_dir else None
    async with server.open_server(Path(home), bin_dir=programs, durable=False) as local:
        url = local.url(cluster.SUPERUSER)
        async with await psycopg.AsyncConnection.connect(url) as conn:
            cursor = await conn.execute(
                "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
            )
            print(*(await cursor.fetchone() or ()), flush=True)  # noqa: T201  # read by the test
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
