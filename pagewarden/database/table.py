"""The name of a table or view, with the type of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Row_co = TypeVar("Row_co", covariant=True)


@dataclass(frozen=True)
class Table(Generic[Row_co]):
    """A public table or view; select() returns rows of its type."""

    name: str
