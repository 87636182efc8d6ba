#!/usr/bin/env python3
"""Write supabase/schema.digest, what the migrations make of an empty database."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pagewarden.local import bootstrap, cluster, migrations, schema_digests, server


async def _measure(folder: Path) -> str:
    async with server.running(folder / "home", durable=False) as local:
        await bootstrap.bootstrap(local.url(cluster.SUPERUSER), password=local.password)
        return await migrations.measure(local.url())


def main() -> None:
    """Migrate a database of its own, and write down its digest after each file."""
    with tempfile.TemporaryDirectory(prefix="pagewarden-digest-") as folder:
        Path(folder).chmod(0o755)  # the server may be of another account
        content = asyncio.run(_measure(Path(folder)))
    (migrations.own_folder().parent / schema_digests.NAME).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
