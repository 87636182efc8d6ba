"""Check names, arguments and conditions before a call is sent, for both transports."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pagewarden import errors

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# An escaped NUL; after an odd number of backslashes, the last one belongs to the text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments by name, and their encoding as a JSON object."""

    values: Mapping[str, object]
    encoded: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """One column to sort by."""

    column: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A checked select; no columns means all, and Postgres parses the values from text."""

    table: str
    columns: tuple[str, ...]
    where: tuple[tuple[str, str | tuple[str, ...] | None], ...]
    order: tuple[Ordering, ...]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """Values to write into the rows of a query."""

    query: Query
    values: Arguments


def check_name(name: str) -> str:
    """Return the name; InvalidArgument if it is not a plain SQL name."""
    if not _NAME.fullmatch(name):
        raise errors.InvalidArgument(f"{name!r} is not a valid SQL name", sqlstate="42602")
    return name


def make_arguments(params: Mapping[str, object]) -> Arguments:
    """Check and encode arguments as JSON that Postgres can store."""
    members = (
        f'"{check_name(name)}":{_encode_value(name, value)}' for name, value in params.items()
    )
    return Arguments(params, "{" + ",".join(members) + "}")


def make_query(
    table: str,
    *,
    columns: str,
    where: Mapping[str, object],
    order: str | None,
    limit: int | None,
) -> Query:
    """Check and parse the parts of a select."""
    if limit is not None and limit < 0:
        raise errors.InvalidArgument("limit must not be negative", sqlstate="2201W")
    return Query(
        table=check_name(table),
        columns=() if columns == "*" else tuple(map(check_name, _split_names(columns))),
        where=tuple((check_name(name), _encode_condition(name, where[name])) for name in where),
        order=tuple(map(_parse_ordering, _split_names(order))) if order else (),
        limit=limit,
    )


def make_change(table: str, *, values: Mapping[str, object], where: Mapping[str, object]) -> Change:
    """Check the parts of an insert or update."""
    if not values:
        raise errors.InvalidArgument(
            "there is nothing to write",
            sqlstate="22023",
            hint="pass a value for at least one column",
        )
    for name in values:
        check_name(name)
    query = make_query(table, columns="*", where=where, order=None, limit=None)
    return Change(query, make_arguments(values))


def _encode_value(name: str, value: object) -> str:
    try:
        text = _JSON.encode(value)
        text.encode()
    except UnicodeEncodeError as exc:
        raise errors.InvalidArgument(
            f"{name} contains a lone surrogate",
            sqlstate="22021",
            hint="decode the text with errors='replace'",
        ) from exc
    except ValueError as exc:
        raise errors.InvalidArgument(
            f"{name} is not JSON: {exc}", sqlstate="22P02", hint="send null instead of NaN"
        ) from exc
    except TypeError as exc:
        raise errors.InvalidArgument(f"{name} is not JSON: {exc}", sqlstate="22023") from exc
    if "\\u0000" in text and _NUL.search(text):  # the first test is fast
        raise errors.InvalidArgument(
            f"{name} contains the character NUL, which Postgres cannot store",
            sqlstate="22021",
            hint="remove it, or replace it with U+FFFD",
        )
    return text


def _split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _parse_ordering(order_term: str) -> Ordering:
    column, _, direction = order_term.partition(".")
    if direction not in {"", "asc", "desc"}:
        raise errors.InvalidArgument(
            f"cannot sort by {order_term!r}", sqlstate="42601", hint="use column or column.desc"
        )
    return Ordering(check_name(column), descending=direction == "desc")


def _encode_condition(name: str, value: object) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple(_encode_scalar(name, item) for item in value)
    return _encode_scalar(name, value)


def _encode_scalar(name: str, value: object) -> str:
    encoded = _encode_value(name, value)
    if value is None or isinstance(value, (list, tuple, Mapping)):
        raise errors.InvalidArgument(
            f"{name} cannot be compared with {encoded}",
            sqlstate="22023",
            hint="use text, a number, a boolean, or a list of these",
        )
    return value if isinstance(value, str) else encoded
