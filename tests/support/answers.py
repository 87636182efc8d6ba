"""Check results of database calls against their generated types."""

from __future__ import annotations

import functools
import types
import typing
from typing import TYPE_CHECKING, Any

from pagewarden.database import client, rows, tables
from pagewarden.database.base import Database

if TYPE_CHECKING:
    import pytest


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check every result that a test gets from the database."""
    call, select = Database.rpc, Database.select

    async def checked_rpc(self: Database, name: str, /, **params: object) -> Any:
        answer = await call(self, name, **params)
        if expected := _answer_types().get(name):
            require(answer, expected, name)
        return answer

    async def checked_select(self: Database, table: Any, **params: Any) -> Any:
        selected = await select(self, table, **params)
        if expected := _row_types().get(table.name):
            for row in selected:
                _require_row(row, expected, table.name, partial=True)
        return selected

    monkeypatch.setattr(Database, "rpc", checked_rpc)
    monkeypatch.setattr(Database, "select", checked_select)


@functools.cache
def _answer_types() -> dict[str, Any]:
    """Return the declared result type of each function."""
    scope = vars(typing) | {"rows": rows, "Sequence": typing.Sequence}
    methods = {name: value for name, value in vars(client.Client).items() if name[0] != "_"}
    return {
        name: typing.get_type_hints(method, scope)["return"]
        for name, method in methods.items()
        if name != "rpc"
    }


@functools.cache
def _row_types() -> dict[str, Any]:
    names = {name: "".join(map(str.capitalize, name.split("_"))) for name in vars(tables)}
    return {name: getattr(rows, camel) for name, camel in names.items() if hasattr(rows, camel)}


def require(value: Any, expected: Any, place: str) -> None:
    """Fail unless a value has the declared type."""
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any:
        return
    if origin in {types.UnionType, typing.Union}:
        assert value is None or types.NoneType in inner, f"{place}: {value!r} is not a {expected}"
        if value is not None:
            require(value, next(one for one in inner if one is not types.NoneType), place)
    elif origin is list:
        assert isinstance(value, list), f"{place}: {value!r} is not a list"
        for number, item in enumerate(value):
            require(item, inner[0], f"{place}[{number}]")
    elif typing.is_typeddict(expected):
        _require_row(value, expected, place, partial=False)
    else:
        accepted = (int, float) if expected is float else expected
        assert isinstance(value, accepted), f"{place}: {value!r} is not a {expected.__name__}"


def _require_row(value: Any, expected: Any, place: str, *, partial: bool) -> None:
    assert isinstance(value, dict), f"{place}: {value!r} is not a row"
    hints = typing.get_type_hints(expected)
    unknown = set(value) - set(hints)
    assert not unknown, f"{place}: {expected.__name__} has no {unknown}; run make generate"
    missing = set() if partial else set(expected.__required_keys__) - set(value)
    assert not missing, f"{place}: {missing} of {expected.__name__} are missing"
    for name, item in value.items():
        require(item, hints[name], f"{place}.{name}")
