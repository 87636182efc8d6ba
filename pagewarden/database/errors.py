"""Translate errors of Postgres, PostgREST and HTTP gateways into DatabaseError, by SQLSTATE."""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING

import psycopg

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

# A full code takes precedence over its class (the first two characters).
_ERROR_OF_SQLSTATE: dict[str, type[errors.DatabaseError]] = {
    "08": errors.DatabaseUnavailable,
    "22": errors.InvalidArgument,
    "23": errors.InvalidArgument,
    "28": errors.Forbidden,
    "40001": errors.Conflict,
    "40P01": errors.Conflict,
    "42501": errors.Forbidden,
    "42601": errors.InvalidArgument,
    "42602": errors.InvalidArgument,
    "42703": errors.InvalidArgument,
    "42725": errors.InvalidArgument,
    "42883": errors.InvalidArgument,
    "42P01": errors.InvalidArgument,
    "53": errors.DatabaseUnavailable,
    "55P03": errors.Conflict,
    "57014": errors.DatabaseUnavailable,  # statement timeout of the server
    "57P01": errors.DatabaseUnavailable,
    "57P02": errors.DatabaseUnavailable,
    "57P03": errors.DatabaseUnavailable,
    "57P05": errors.DatabaseUnavailable,
}
# Errors of PostgREST itself, as the SQLSTATE that Postgres would use.
_SQLSTATE_OF_POSTGREST = {
    "PGRST000": "08006",  # no connection to the database
    "PGRST001": "08006",
    "PGRST002": "08006",  # no connection while it reads the schema
    "PGRST003": "53300",  # no free connection in time
    "PGRST103": "2201W",  # limit out of range
    "PGRST202": "42883",  # no such function
    "PGRST203": "42725",  # more than one such function
    "PGRST204": "42703",  # no such column
    "PGRST205": "42P01",  # no such table
    "PGRST300": "28000",  # no key to verify tokens with
    "PGRST301": "28000",  # token cannot be verified
    "PGRST302": "28000",  # no token
    "PGRST303": "28000",  # token expired
}


@contextlib.contextmanager
def translate_postgres_errors() -> Iterator[None]:
    """Raise DatabaseError for errors of psycopg and timeouts."""
    try:
        yield
    except psycopg.Error as exc:
        raise _convert_psycopg_error(exc) from exc
    except TimeoutError as exc:
        raise errors.DatabaseUnavailable(
            "the database did not respond within the timeout; check its load"
        ) from exc


def make_error_from_sqlstate(sqlstate: str, message: str, hint: str | None) -> errors.DatabaseError:
    """Return the error for a SQLSTATE."""
    kind = _ERROR_OF_SQLSTATE.get(sqlstate) or _ERROR_OF_SQLSTATE.get(sqlstate[:2])
    return (kind or errors.DatabaseError)(message, sqlstate=sqlstate, hint=hint)


def _convert_psycopg_error(exc: psycopg.Error) -> errors.DatabaseError:
    if exc.sqlstate:
        message = exc.diag.message_primary or str(exc)
        return make_error_from_sqlstate(exc.sqlstate, message, exc.diag.message_hint)
    if isinstance(exc, (psycopg.OperationalError, psycopg.InterfaceError)):
        return errors.DatabaseUnavailable(f"the database cannot be reached: {exc}")
    return errors.DatabaseError(str(exc))


@contextlib.contextmanager
def translate_http_errors() -> Iterator[None]:
    """Raise DatabaseError for errors of httpx."""
    import httpx  # noqa: PLC0415  # slow to import, and the direct transport does without

    try:
        yield
    except httpx.HTTPError as exc:
        if isinstance(exc, httpx.TransportError):
            reason = str(exc) or type(exc).__name__
            raise errors.DatabaseUnavailable(f"the database cannot be reached: {reason}") from exc
        raise errors.DatabaseError(str(exc)) from exc


def make_error_from_response(response: httpx.Response) -> errors.DatabaseError:
    """Return the error for an unsuccessful response."""
    body = _parse_body(response)
    code, message, hint = (_get_text(body.get(key)) for key in ("code", "message", "hint"))
    message = message or f"HTTP {response.status_code} {response.reason_phrase}"
    if code:
        return make_error_from_sqlstate(_SQLSTATE_OF_POSTGREST.get(code, code), message, hint)
    # Not from PostgREST but from a gateway in front of it, which has no code.
    return _find_error_class(response.status_code)(message, hint=hint)


def _find_error_class(status: int) -> type[errors.DatabaseError]:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return errors.Forbidden
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.BAD_GATEWAY:
        return errors.DatabaseUnavailable
    return errors.DatabaseError


def _parse_body(response: httpx.Response) -> dict[str, object]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _get_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
