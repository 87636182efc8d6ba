"""Turn the errors of Postgres into ours, by SQLSTATE."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psycopg

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

# A whole code comes before its class (the first two letters).
_ERROR_OF_SQLSTATE: dict[str, type[errors.DatabaseError]] = {
    "08": errors.DatabaseAway,
    "22": errors.InvalidCall,
    "23": errors.InvalidCall,
    "28": errors.Forbidden,
    "40001": errors.Conflict,
    "40P01": errors.Conflict,
    "42501": errors.Forbidden,
    "42601": errors.InvalidCall,
    "42602": errors.InvalidCall,
    "42703": errors.InvalidCall,
    "42725": errors.InvalidCall,
    "42883": errors.InvalidCall,
    "42P01": errors.InvalidCall,
    "53": errors.DatabaseAway,
    "55P03": errors.Conflict,
    "57014": errors.DatabaseAway,  # took longer than the server allows
    "57P01": errors.DatabaseAway,
    "57P02": errors.DatabaseAway,
    "57P03": errors.DatabaseAway,
    "57P05": errors.DatabaseAway,
}


@contextlib.contextmanager
def foreign_errors() -> Iterator[None]:
    """Raise our errors instead of those of psycopg and asyncio."""
    try:
        yield
    except psycopg.Error as exc:
        raise _from_psycopg(exc) from exc
    except TimeoutError as exc:
        raise errors.DatabaseAway("the database did not answer in time") from exc


def by_sqlstate(sqlstate: str, message: str, hint: str | None) -> errors.DatabaseError:
    """Make the error that a SQLSTATE means."""
    kind = _ERROR_OF_SQLSTATE.get(sqlstate) or _ERROR_OF_SQLSTATE.get(sqlstate[:2])
    return (kind or errors.DatabaseError)(message, sqlstate=sqlstate, hint=hint)


def _from_psycopg(exc: psycopg.Error) -> errors.DatabaseError:
    if exc.sqlstate:
        message = exc.diag.message_primary or str(exc)
        return by_sqlstate(exc.sqlstate, message, exc.diag.message_hint)
    if isinstance(exc, (psycopg.OperationalError, psycopg.InterfaceError)):
        return errors.DatabaseAway(f"the database cannot be reached: {exc}")
    return errors.DatabaseError(str(exc))
