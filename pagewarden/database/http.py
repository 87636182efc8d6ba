"""The HTTP transport: a Supabase project, through the PostgREST client of its package."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

import httpx
import postgrest
from postgrest import base_request_builder

from pagewarden import errors
from pagewarden.database import base
from pagewarden.database.errors import make_error_from_response, translate_http_errors

if TYPE_CHECKING:
    import ssl

    from pagewarden.database import arguments


class HttpDatabase(base.Database):
    """An HTTP session, and the credentials of each request."""

    def __init__(
        self, session: httpx.AsyncClient, url: str, key: str, bearer: str | None = None
    ) -> None:
        self._session = session
        self._url = url
        self._key = key
        headers = {"apikey": key}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        self._client = postgrest.AsyncPostgrestClient(
            f"{url}/rest/v1", headers=headers, http_client=session
        )

    def acting_as(self, user: base.User) -> HttpDatabase:
        """Return the same database as this user, with row-level security."""
        if user.jwt is None:
            raise errors.Forbidden(
                "over HTTP, a call on behalf of a user requires a token",
                sqlstate="28000",
                hint="sign in first",
            )
        return HttpDatabase(self._session, self._url, self._key, user.jwt)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.aclose()

    async def _rpc(self, name: str, args: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        # The client is typed for text but accepts any JSON.
        builder = self._client.rpc(name, cast("dict[str, str]", dict(args.values)))
        return await _send(builder.request)

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        builder = self._client.from_(change.query.table).insert(dict(change.values.values))
        rows: list[dict[str, Any]] = await _send(builder.request)
        return rows

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        builder = self._client.from_(change.query.table).update(dict(change.values.values))
        for column, value in change.query.where:
            builder = builder.filter(column, *_make_filter(value))
        rows: list[dict[str, Any]] = await _send(builder.request)
        return rows

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        builder = self._client.from_(query.table).select(*query.columns)
        for column, value in query.where:
            builder = builder.filter(column, *_make_filter(value))
        for term in query.order:
            builder = builder.order(term.column, desc=term.descending)
        if query.limit is not None:
            builder = builder.limit(query.limit)
        rows: list[dict[str, Any]] = await _send(builder.request)
        return rows


def connect(url: str, key: str, *, timeout: float) -> HttpDatabase:
    """Connect to a Supabase project with its secret key; `timeout` is in seconds for each call."""
    # HTTP/1.1: a lost connection then affects only the one call that used it.
    session = httpx.AsyncClient(
        timeout=httpx.Timeout(timeout, connect=min(timeout, base.CONNECT_SECONDS)),
        verify=_load_certificates(),
    )
    # A legacy key is a token that names its role; a new key must not be sent as a token.
    return HttpDatabase(session, url.rstrip("/"), key, key if key.count(".") == 2 else None)


@functools.cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates once; that takes longer than most calls."""
    return httpx.create_ssl_context()


async def _send(request: base_request_builder.RequestConfig[httpx.AsyncClient]) -> Any:  # noqa: ANN401  # JSON
    # Not execute(): it repeats some requests, hides the status of errors, and turns the empty
    # response of a void function into an empty list.
    with translate_http_errors():
        response = await request.send(httpx.Headers())
    if not response.is_success:
        raise make_error_from_response(response)
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as exc:
        raise errors.DatabaseError(
            f"{response.url.host} does not respond like a Supabase project",
            hint="check PAGEWARDEN_SUPABASE_URL",
        ) from exc


def _make_filter(value: str | tuple[str, ...] | None) -> tuple[str, str]:
    if value is None:
        return "is", "null"
    if isinstance(value, str):
        return "eq", value
    return "in", "(" + ",".join(map(_quote, value)) + ")"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
