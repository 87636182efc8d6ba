"""The generated files follow from the migrations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg

from pagewarden.local import cluster
from scripts import generate

if TYPE_CHECKING:
    from tests.support import databases


async def test_generated_files_are_what_the_migrations_make(database: databases.Database) -> None:
    """The typed client, its types for Python and TypeScript, and the map of the database."""

    def render() -> list[str]:
        with psycopg.connect(database.url(cluster.SUPERUSER)) as connection:
            rendered = generate.render(connection, database.tcp_url(cluster.SUPERUSER))
        return [str(path) for path in generate.find_stale(rendered)]

    assert await asyncio.to_thread(render) == [], "run make generate"
