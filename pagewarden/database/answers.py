"""Results of SQL functions that may be refusals, in which other fields are missing."""

from __future__ import annotations

from typing import TypeVar

from pagewarden import errors

T = TypeVar("T")


def require_field(value: T | None) -> T:
    """Return a field that only refusals lack; DatabaseError if it is missing."""
    if value is None:
        raise errors.DatabaseError(
            "the database returned a result without a required field",
            hint="apply all migrations with `pagewarden migrate`",
        )
    return value
