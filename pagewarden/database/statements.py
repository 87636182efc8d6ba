"""The SQL of the direct transport: much what PostgREST would send for the same call.

Arguments travel as one JSON object that Postgres takes apart, and results as one JSON value
that it puts together, so that both conversions are its own.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from pagewarden.database import arguments

# Finds the functions of a name that take the given arguments and need no others.
_FIND = """
select
  case
    when p.prorettype = 'void'::regtype then 'nothing'
    when t.typtype = 'c' or p.prorettype = 'record'::regtype or p.proargmodes && '{o,b,t}'
      then case when p.proretset then 'rows' else 'row' end
    else case when p.proretset then 'values' else 'value' end
  end,
  inputs.types
from pg_catalog.pg_proc as p
join pg_catalog.pg_type as t on t.oid = p.prorettype
cross join lateral (
  select
    coalesce(array_agg(i.name), '{}') as names,
    coalesce(array_agg(i.name) filter (where i.place <= p.pronargs - p.pronargdefaults), '{}')
      as needed,
    coalesce(json_object_agg(i.name, format_type(i.type, null)), '{}') as types
  from (
    select a.name, a.type, row_number() over (order by a.place) as place
    from unnest(p.proargnames, p.proargmodes, coalesce(p.proallargtypes, p.proargtypes::oid[]))
      with ordinality as a(name, mode, type, place)
    where coalesce(a.mode, 'i') in ('i', 'b') and a.name <> ''
  ) as i
) as inputs
where p.pronamespace = 'public'::regnamespace
  and p.prokind = 'f'
  and p.proname = %(name)s
  and inputs.needed <@ %(given)s::text[]
  and inputs.names @> %(given)s::text[]
"""


class Shape(enum.StrEnum):
    """What a function returns."""

    NOTHING = "nothing"
    VALUE = "value"
    ROW = "row"
    VALUES = "values"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one function, complete but for the values of its arguments.

    It is kept as bytes, because putting it together takes as long as running it.
    """

    shape: Shape
    before: bytes
    after: bytes

    def statement(self, connection: psycopg.AsyncConnection, encoded: str) -> bytes:
        """Put the arguments in, a JSON object."""
        return self.before + sql.Literal(encoded).as_bytes(connection) + self.after


async def find_call(connection: psycopg.AsyncConnection, name: str, given: frozenset[str]) -> Call:
    """Look up the function that takes these arguments."""
    cursor = await connection.execute(_FIND, {"name": name, "given": sorted(given)})
    found = await cursor.fetchall()
    if len(found) != 1:
        some = "more than one" if found else "no"
        raise errors.InvalidCall(
            f"there is {some} function public.{name}({', '.join(sorted(given))})",
            sqlstate="42725" if found else "42883",
            hint="check the names of the arguments, and that every migration has been applied",
        )
    shape, types = found[0]
    before, after = _call(name, Shape(shape), {key: types[key] for key in given})
    return Call(Shape(shape), before.as_bytes(connection), after.as_bytes(connection))


def select(query: arguments.Query) -> sql.Composed:
    """Compose a select that returns all its rows as one JSON array."""
    return sql.SQL(
        "select coalesce(json_agg(x), '[]') from (select {} from public.{}{}{}{}) as x"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, query.columns)) if query.columns else sql.SQL("*"),
        sql.Identifier(query.table),
        _where(query),
        _order(query),
        _limit(query.limit),
    )


def insert(change: arguments.Change) -> sql.Composed:
    """Compose an insert of one row that returns it in a JSON array."""
    return sql.SQL(
        "with x as (insert into public.{table} ({columns}) select {columns} from"
        " json_populate_record(null::public.{table}, {values}) returning *)"
        " select coalesce(json_agg(x), '[]') from x"
    ).format(**_parts(change))


def update(change: arguments.Change) -> sql.Composed:
    """Compose an update that returns the changed rows in a JSON array."""
    return sql.SQL(
        "with x as (update public.{table} set ({columns}) = (select {columns} from"
        " json_populate_record(null::public.{table}, {values})){where} returning *)"
        " select coalesce(json_agg(x), '[]') from x"
    ).format(**_parts(change), where=_where(change.query))


def _parts(change: arguments.Change) -> dict[str, sql.Composable]:
    return {
        "table": sql.Identifier(change.query.table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, change.values.values)),
        "values": sql.Literal(change.values.encoded),
    }


def settings(values: Mapping[str, str]) -> sql.Composed:
    """Compose a statement that sets these for the rest of the transaction."""
    return sql.SQL("select {}; ").format(
        sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(key), sql.Literal(value))
            for key, value in values.items()
        )
    )


def _call(
    name: str, shape: Shape, types: Mapping[str, str]
) -> tuple[sql.Composable, sql.Composable]:
    """Compose what comes before the arguments and what comes after them."""
    call = sql.SQL("public.{}({})").format(
        sql.Identifier(name),
        sql.SQL(", ").join(sql.SQL("{0} => a.{0}").format(sql.Identifier(key)) for key in types),
    )
    result, source = _result(shape, call)
    return (
        sql.SQL("select {} from json_to_record(").format(result),
        sql.SQL(") as a({}){}").format(_columns(types), source),
    )


def _result(shape: Shape, call: sql.Composed) -> tuple[sql.Composable, sql.Composable]:
    match shape:
        case Shape.NOTHING:
            return call, sql.SQL("")
        case Shape.VALUE:
            return sql.SQL("to_json({})").format(call), sql.SQL("")
        case Shape.VALUES:
            return sql.SQL("coalesce(json_agg(x.value), '[]')"), sql.SQL(
                " cross join lateral {} as x(value)"
            ).format(call)
        case Shape.ROW | Shape.ROWS:
            # The inner select keeps a row of one column a row.
            source = sql.SQL(" cross join lateral (select r.* from {} as r) as x").format(call)
            if shape is Shape.ROW:
                return sql.SQL("to_json(x)"), source
            return sql.SQL("coalesce(json_agg(x), '[]')"), source


def _columns(types: Mapping[str, str]) -> sql.Composable:
    if not types:
        return sql.SQL("nothing text")  # json_to_record() wants a column
    # format_type() has quoted the types.
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(key), sql.SQL(types[key])) for key in types
    )


def _where(query: arguments.Query) -> sql.Composable:
    if not query.where:
        return sql.SQL("")
    conditions = sql.SQL(" and ").join(_condition(*condition) for condition in query.where)
    return sql.SQL(" where ") + conditions


def _condition(column: str, value: str | tuple[str, ...] | None) -> sql.Composable:
    name = sql.Identifier(column)
    if value is None:
        return sql.SQL("{} is null").format(name)
    if isinstance(value, str):
        return sql.SQL("{} = {}").format(name, sql.Literal(value))
    if not value:
        return sql.SQL("false")
    return sql.SQL("{} in ({})").format(name, sql.SQL(", ").join(map(sql.Literal, value)))


def _order(query: arguments.Query) -> sql.Composable:
    if not query.order:
        return sql.SQL("")
    return sql.SQL(" order by ") + sql.SQL(", ").join(
        sql.SQL("{} desc" if term.descending else "{}").format(sql.Identifier(term.column))
        for term in query.order
    )


def _limit(limit: int | None) -> sql.Composable:
    return sql.SQL("") if limit is None else sql.SQL(" limit {}").format(sql.Literal(limit))
