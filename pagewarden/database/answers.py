"""Answers of the database that may be refusals."""

from __future__ import annotations

from typing import TypeVar

from pagewarden import errors

T = TypeVar("T")


def require(value: T | None) -> T:
    """Return a field that every answer but a refusal has."""
    if value is None:
        raise errors.DatabaseError(
            "an answer of the database lacks a field",
            hint="apply all migrations with `pagewarden migrate`",
        )
    return value
