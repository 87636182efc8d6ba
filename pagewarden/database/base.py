"""The Database: generated methods for SQL functions, and rpc, select, insert and update."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from pagewarden import errors
from pagewarden.database import arguments, client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.database.table import Table

Row = TypeVar("Row")

# Longer than any call should take, but short enough for a worker to release its documents in time
# when the server stalls.
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class User:
    """A signed-in user, whose token has been verified by the caller.

    The direct transport needs no token; the id is then the only claim.
    """

    id: str
    jwt: str | None = field(default=None, repr=False)


class Database(client.Client):
    """A Postgres with the Pagewarden schema, as the service role or as one user.

    Values are those of JSON: a uuid or a timestamp (ISO 8601, UTC) is a str, a numeric is a
    float or an int.
    """

    async def rpc(self, name: str, /, **params: object) -> Any:  # noqa: ANN401  # JSON
        """Call public.<name> in its own transaction.

        Returns the value, a dict for a row, a list for a set, None for void. Arguments are JSON
        values; an invalid one is rejected before anything is sent.
        """
        arguments.check_name(name)
        return await self._rpc(name, arguments.make_arguments(params))

    async def select(
        self,
        table: Table[Row],
        *,
        columns: str = "*",
        where: Mapping[str, object] | None = None,
        order: str | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Read rows of a public table or view, with all columns or the given ones.

        In `where`, a value must be equal, None means null, and a list means any of its values.
        `order` has the form "created_at.desc,id". Over HTTP the result is limited by the
        project's max_rows.
        """
        query = arguments.make_query(
            table.name, columns=columns, where=where or {}, order=order, limit=limit
        )
        return cast("list[Row]", await self._select(query))

    async def insert(self, table: Table[Row], values: Mapping[str, object]) -> Row | None:
        """Insert a row into a public table or view, and return it as stored."""
        change = arguments.make_change(table.name, values=values, where={})
        rows = cast("list[Row]", await self._insert(change))
        return rows[0] if rows else None

    async def update(
        self, table: Table[Row], values: Mapping[str, object], *, where: Mapping[str, object]
    ) -> list[Row]:
        """Update the rows that `where` selects, as in select(), and return them as stored.

        An empty condition is an error, because it would mean all rows.
        """
        if not where:
            raise errors.InvalidArgument(
                "an update requires a condition",
                sqlstate="22023",
                hint="select the rows with `where`",
            )
        change = arguments.make_change(table.name, values=values, where=where)
        return cast("list[Row]", await self._update(change))

    @abc.abstractmethod
    def acting_as(self, user: User) -> Database:
        """Return the same database as this user, with row-level security.

        It shares the connections of this object and is closed with it.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @abc.abstractmethod
    async def _rpc(self, name: str, args: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        """Call the function with checked arguments."""

    @abc.abstractmethod
    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        """Run the checked query."""

    @abc.abstractmethod
    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        """Insert the checked row."""

    @abc.abstractmethod
    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        """Update the rows of the checked conditions."""
