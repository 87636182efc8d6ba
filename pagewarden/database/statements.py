"""SQL of the direct transport, similar to what PostgREST sends for the same call.

Arguments are sent as one JSON object and results returned as one JSON value, so that Postgres
itself does both conversions.
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

# Finds the functions of a name that accept the given arguments and require no others.
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


class ResultShape(enum.StrEnum):
    """What a function returns."""

    NOTHING = "nothing"
    VALUE = "value"
    ROW = "row"
    VALUES = "values"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class CallStatement:
    """The SQL before and after the arguments of a function call.

    It is cached as bytes, because composing it takes as long as running it.
    """

    shape: ResultShape
    before: bytes
    after: bytes

    def statement(self, connection: psycopg.AsyncConnection, encoded: str) -> bytes:
        """Return the statement with the arguments, an encoded JSON object."""
        return self.before + sql.Literal(encoded).as_bytes(connection) + self.after


async def find_call(
    connection: psycopg.AsyncConnection, name: str, arg_names: frozenset[str]
) -> CallStatement:
    """Look up the function that accepts these arguments."""
    cursor = await connection.execute(_FIND, {"name": name, "given": sorted(arg_names)})
    rows = await cursor.fetchall()
    if len(rows) != 1:
        number = "more than one" if rows else "no"
        raise errors.InvalidArgument(
            f"there is {number} function public.{name}({', '.join(sorted(arg_names))})",
            sqlstate="42725" if rows else "42883",
            hint="check the argument names, and that all migrations have been applied",
        )
    shape, types = rows[0]
    before, after = _make_call(name, ResultShape(shape), {key: types[key] for key in arg_names})
    return CallStatement(
        ResultShape(shape), before.as_bytes(connection), after.as_bytes(connection)
    )


def make_select(query: arguments.Query) -> sql.Composed:
    """Compose a select that returns all its rows as one JSON array."""
    return sql.SQL(
        "select coalesce(json_agg(x), '[]') from (select {} from public.{}{}{}{}) as x"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, query.columns)) if query.columns else sql.SQL("*"),
        sql.Identifier(query.table),
        _make_where(query),
        _make_order_by(query),
        _make_limit(query.limit),
    )


def make_insert(change: arguments.Change) -> sql.Composed:
    """Compose an insert of one row that returns it in a JSON array."""
    return sql.SQL(
        "with x as (insert into public.{table} ({columns}) select {columns} from"
        " json_populate_record(null::public.{table}, {values}) returning *)"
        " select coalesce(json_agg(x), '[]') from x"
    ).format(**_make_parts(change))


def make_update(change: arguments.Change) -> sql.Composed:
    """Compose an update that returns the changed rows in a JSON array."""
    return sql.SQL(
        "with x as (update public.{table} set ({columns}) = (select {columns} from"
        " json_populate_record(null::public.{table}, {values})){where} returning *)"
        " select coalesce(json_agg(x), '[]') from x"
    ).format(**_make_parts(change), where=_make_where(change.query))


def _make_parts(change: arguments.Change) -> dict[str, sql.Composable]:
    return {
        "table": sql.Identifier(change.query.table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, change.values.values)),
        "values": sql.Literal(change.values.encoded),
    }


def make_settings_statement(values: Mapping[str, str]) -> sql.Composed:
    """Compose a statement that applies settings to the rest of the transaction."""
    return sql.SQL("select {}; ").format(
        sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(key), sql.Literal(value))
            for key, value in values.items()
        )
    )


def _make_call(
    name: str, shape: ResultShape, types: Mapping[str, str]
) -> tuple[sql.Composable, sql.Composable]:
    """Compose the SQL before and after the arguments."""
    call = sql.SQL("public.{}({})").format(
        sql.Identifier(name),
        sql.SQL(", ").join(sql.SQL("{0} => a.{0}").format(sql.Identifier(key)) for key in types),
    )
    result, source = _make_result(shape, call)
    return (
        sql.SQL("select {} from json_to_record(").format(result),
        sql.SQL(") as a({}){}").format(_make_columns(types), source),
    )


def _make_result(shape: ResultShape, call: sql.Composed) -> tuple[sql.Composable, sql.Composable]:
    match shape:
        case ResultShape.NOTHING:
            return call, sql.SQL("")
        case ResultShape.VALUE:
            return sql.SQL("to_json({})").format(call), sql.SQL("")
        case ResultShape.VALUES:
            return sql.SQL("coalesce(json_agg(x.value), '[]')"), sql.SQL(
                " cross join lateral {} as x(value)"
            ).format(call)
        case ResultShape.ROW | ResultShape.ROWS:
            # The inner select keeps a row with one column a row.
            source = sql.SQL(" cross join lateral (select r.* from {} as r) as x").format(call)
            if shape is ResultShape.ROW:
                return sql.SQL("to_json(x)"), source
            return sql.SQL("coalesce(json_agg(x), '[]')"), source


def _make_columns(types: Mapping[str, str]) -> sql.Composable:
    if not types:
        return sql.SQL("nothing text")  # json_to_record() requires a column
    # format_type() has quoted the types.
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(key), sql.SQL(types[key])) for key in types
    )


def _make_where(query: arguments.Query) -> sql.Composable:
    if not query.where:
        return sql.SQL("")
    conditions = sql.SQL(" and ").join(_make_condition(*condition) for condition in query.where)
    return sql.SQL(" where ") + conditions


def _make_condition(column: str, value: str | tuple[str, ...] | None) -> sql.Composable:
    name = sql.Identifier(column)
    if value is None:
        return sql.SQL("{} is null").format(name)
    if isinstance(value, str):
        return sql.SQL("{} = {}").format(name, sql.Literal(value))
    if not value:
        return sql.SQL("false")
    return sql.SQL("{} in ({})").format(name, sql.SQL(", ").join(map(sql.Literal, value)))


def _make_order_by(query: arguments.Query) -> sql.Composable:
    if not query.order:
        return sql.SQL("")
    return sql.SQL(" order by ") + sql.SQL(", ").join(
        sql.SQL("{} desc" if term.descending else "{}").format(sql.Identifier(term.column))
        for term in query.order
    )


def _make_limit(limit: int | None) -> sql.Composable:
    return sql.SQL("") if limit is None else sql.SQL(" limit {}").format(sql.Literal(limit))
