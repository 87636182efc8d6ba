"""What every transport offers."""

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

# Longer than any call should take, short enough that a stalled server is noticed while the
# worker can still give its documents back.
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class User:
    """Somebody signed in. The token has been verified by whoever makes this.

    The direct transport can do without a token; then the user has no claims but the id.
    """

    id: str
    jwt: str | None = field(default=None, repr=False)


class Database(client.Client):
    """A Postgres with our schema, seen by the service role or by one user.

    Values are those of JSON: a uuid or a timestamp (ISO 8601, UTC) is a str, a numeric is a
    float or an int.
    """

    async def rpc(self, name: str, /, **params: object) -> Any:  # noqa: ANN401  # JSON
        """Call public.<name> in a transaction of its own.

        Returns the value, a dict for a row, a list for a set, None for nothing. Arguments are
        JSON values; a wrong one is refused before anything is sent.
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
        """Read rows of a public table or view; with columns, they have no others.

        A value of where must be equal, None means null, a list means any of these. order reads
        like "created_at.desc,id". Over HTTP the project's max_rows cuts off what is longer.
        """
        query = arguments.make_query(
            table.name, columns=columns, where=where or {}, order=order, limit=limit
        )
        return cast("list[Row]", await self._select(query))

    async def insert(self, table: Table[Row], values: Mapping[str, object]) -> Row | None:
        """Add a row to a public table or view, and give it back as it is then."""
        change = arguments.make_change(table.name, values=values, where={})
        rows = cast("list[Row]", await self._insert(change))
        return rows[0] if rows else None

    async def update(
        self, table: Table[Row], values: Mapping[str, object], *, where: Mapping[str, object]
    ) -> list[Row]:
        """Change the rows that where names, as in select, and give them back as they are then.

        Without a condition nothing is done: nobody means all rows.
        """
        if not where:
            raise errors.InvalidCall(
                "an update needs to say which rows", sqlstate="22023", hint="name them in where"
            )
        change = arguments.make_change(table.name, values=values, where=where)
        return cast("list[Row]", await self._update(change))

    @abc.abstractmethod
    def acting_as(self, user: User) -> Database:
        """See the same database as this user, whose row-level security applies.

        It shares our connections, and is closed with us.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @abc.abstractmethod
    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        """Call the function with checked arguments."""

    @abc.abstractmethod
    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        """Read what the checked query asks for."""

    @abc.abstractmethod
    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        """Add the checked row."""

    @abc.abstractmethod
    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        """Change what the checked conditions name."""
