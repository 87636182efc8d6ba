"""Caller of a request, service key, rate limit per user, and switches of functions."""

from __future__ import annotations

import collections
import hmac
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

import structlog
from fastapi import APIRouter, Depends, Request, Security, params, security

from pagewarden import services
from pagewarden.auth import tokens
from pagewarden.database import tables
from pagewarden.errors import Forbidden, NotSignedIn, RequestRejected
from pagewarden.functions.http import errors, function_config
from pagewarden.services import Services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database import Database

OFF_RETRY_SECONDS = 60
EVENT_HEADER = "x-webhook-secret"
"""Header in which Database Webhooks of Supabase send their secret."""
# The least recently seen user is evicted first, and starts with a full bucket again.
_MAX_USERS = 10_000


@dataclass(slots=True)
class RateLimiter:
    """One token bucket per user, in the memory of this process; it refills within a minute."""

    now: Callable[[], float] = time.monotonic
    _buckets: collections.OrderedDict[str, tuple[float, float]] = field(
        default_factory=collections.OrderedDict
    )

    def consume(self, user_id: str, limit_per_minute: int) -> float:
        """Count a call; return the seconds to wait before it is allowed, 0 if it is allowed now."""
        now = self.now()
        left, seen = self._buckets.pop(user_id, (float(limit_per_minute), now))
        left = min(float(limit_per_minute), left + (now - seen) * limit_per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / limit_per_minute
        self._buckets[user_id] = (left if wait else left - 1, now)
        while len(self._buckets) > _MAX_USERS:
            self._buckets.popitem(last=False)
        return wait


# The verifier reads the headers itself; these only add them to the OpenAPI document.
_BEARER = security.HTTPBearer(
    scheme_name="UserToken", auto_error=False, description="A user's access token."
)
SECRET_KEY = security.APIKeyHeader(
    name="apikey",
    scheme_name="SecretKey",
    auto_error=False,
    description="The secret key, for services.",
)


async def _authenticate_caller(
    request: Request,
    services: services.Current,
    _bearer: Annotated[security.HTTPAuthorizationCredentials | None, Security(_BEARER)],
    _key: Annotated[str | None, Security(SECRET_KEY)],
) -> tokens.Caller:
    caller = await services.verifier.caller(request.headers)
    structlog.contextvars.bind_contextvars(user=caller.user_id or str(caller.role))
    if caller.role is tokens.Role.ANON:
        raise NotSignedIn("the publishable key alone does not grant access; sign in")
    if caller.user_id is not None:
        _limit_rate(request, caller.user_id, services.settings.requests_per_minute)
    return caller


def _limit_rate(request: Request, user_id: str, per_minute: int) -> None:
    """Refuse users who exceed the rate limit; services have no limit."""
    limiter = cast("RateLimiter", request.app.state.rate_limiter)
    if wait := limiter.consume(user_id, per_minute):
        raise RequestRejected(
            "TOO_MANY_REQUESTS",
            f"rate limit exceeded: {per_minute:,} calls per minute; "
            f"retry after {math.ceil(wait)} s",
            retry_after=wait,
        )


Caller = Annotated[tokens.Caller, Depends(_authenticate_caller)]
"""Route parameter type: the caller, either a signed-in user or a service."""


async def _require_service(caller: Caller) -> tokens.Caller:
    if not caller.is_service:
        raise Forbidden("only services can call this function; send the secret key")
    return caller


async def _require_service_or_event(
    request: Request,
    services: services.Current,
    bearer: Annotated[security.HTTPAuthorizationCredentials | None, Security(_BEARER)],
    key: Annotated[str | None, Security(SECRET_KEY)],
) -> None:
    """Allow services, and Database Webhooks with their secret; these may only report events."""
    given = request.headers.get(EVENT_HEADER)
    request.state.is_event = given is not None
    if given is None:
        await _require_service(await _authenticate_caller(request, services, bearer, key))
        return
    secret = services.settings.database_webhook_secret
    expected = secret.get_secret_value() if secret else ""
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise NotSignedIn(
            f"the secret in the header {EVENT_HEADER} is wrong; send the value of "
            "PAGEWARDEN_DATABASE_WEBHOOK_SECRET"
        )


def database_for(caller: tokens.Caller, services: Services) -> Database:
    """Return the database as the caller may use it, under row-level security."""
    return services.database if caller.is_service else services.database.acting_as(caller.user())


def require_access(name: str, *, accepts_events: bool = False) -> list[params.Depends]:
    """Return the dependencies that check the caller of a function and that it is switched on.

    supabase/config.toml defines who may call it. Runs are recorded for calls by services only:
    calls by users are frequent, and the history of their documents records them. accepts_events:
    Database Webhooks call it too.
    """
    if function_config.requires_user_token(name):
        return [Depends(_authenticate_caller), Depends(require_enabled(name))]
    return [
        Depends(_require_service_or_event if accepts_events else _require_service),
        Depends(require_enabled(name)),
        Depends(function_config.record_run(name)),
    ]


def make_router(name: str) -> APIRouter:
    """Return the router of a function, below its name and with access checks."""
    return APIRouter(
        prefix=f"/{name}",
        tags=[name],
        dependencies=require_access(name),
        responses=errors.error_responses(401, 403, 429, 503),
    )


def require_enabled(name: str) -> Callable[[services.Services], Awaitable[None]]:
    """Return a dependency that refuses calls while edge_function_config disables the function.

    It queries the database at every call, so that switching takes effect at once.
    """

    async def require(services: services.Current) -> None:
        rows = await services.database.select(
            tables.edge_function_config, columns="enabled", where={"function_name": name}
        )
        if rows and not rows[0]["enabled"]:
            raise RequestRejected(
                "SWITCHED_OFF",
                f"{name} is disabled; try again later",
                retry_after=OFF_RETRY_SECONDS,
            )

    return require
