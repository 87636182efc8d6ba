"""The tables of the sign-in: statements out, records in, errors of ours."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import rows

from pagewarden import errors
from pagewarden.database import pool as pools
from pagewarden.database import translate
from pagewarden.local.sign_in import statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import LiteralString

    import psycopg

T = TypeVar("T")

_CONNECTIONS = 5
_TIMEOUT_SECONDS = 10.0


class Store:
    """A few connections of a role that may use schema auth, opened when needed."""

    def __init__(self, url: str) -> None:
        self._pool = pools.Pool(url, size=_CONNECTIONS)

    async def all(
        self, kind: type[T], statement: LiteralString, params: Mapping[str, Any]
    ) -> list[T]:
        """Run a statement, and make a record of each row."""
        async with self._connection() as connection:
            cursor = connection.cursor(row_factory=rows.class_row(kind))
            return await (await cursor.execute(statement, params)).fetchall()

    async def one(
        self, kind: type[T], statement: LiteralString, params: Mapping[str, Any]
    ) -> T | None:
        """Run a statement, and make a record of its first row."""
        return next(iter(await self.all(kind, statement, params)), None)

    async def change(self, statement: LiteralString, params: Mapping[str, Any]) -> int:
        """Run a statement, and say how many rows it changed or returned."""
        async with self._connection() as connection:
            return (await connection.execute(statement, params)).rowcount

    async def require_home(self) -> None:
        """Refuse a database where Supabase Auth is at home: people sign in there."""
        async with self._connection() as connection:
            row = await (await connection.execute(statements.IS_AT_HOME)).fetchone()
        if row != (True,):
            raise errors.SettingsError(
                "people sign in at the Supabase project of this database; set "
                "PAGEWARDEN_SUPABASE_URL and PAGEWARDEN_SUPABASE_KEY"
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        with translate.foreign_errors():
            async with asyncio.timeout(_TIMEOUT_SECONDS), self._pool.connection() as connection:
                yield connection
