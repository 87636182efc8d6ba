"""Who calls a function, and whether its switch is on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import structlog
from fastapi import APIRouter, Depends, Request, Security, params, security

from functions import answers, runs, services, switchboard
from pagewarden import errors, tokens
from pagewarden.database import tables

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database import Database

OFF_RETRY_SECONDS = 60


# The verifier looks at the headers itself; these tell the OpenAPI document of them.
_BEARER = security.HTTPBearer(auto_error=False, description="The access token of a person.")
_KEY = security.APIKeyHeader(
    name="apikey", auto_error=False, description="The secret key of a service."
)


async def _caller(
    request: Request,
    used: services.Used,
    _bearer: Annotated[security.HTTPAuthorizationCredentials | None, Security(_BEARER)],
    _key: Annotated[str | None, Security(_KEY)],
) -> tokens.Caller:
    caller = await used.verifier.caller(request.headers)
    structlog.contextvars.bind_contextvars(user=caller.user_id or str(caller.role))
    if caller.role is tokens.Role.ANON:
        raise errors.NotSignedIn("the publishable key opens nothing by itself; sign in")
    if caller.user_id is not None:
        _require_patience(caller.user_id, used)
    return caller


def _require_patience(user_id: str, used: services.Services) -> None:
    """Refuse a person who calls too often; our own services know what they do."""
    wait = used.pace.take(user_id, used.settings.requests_per_minute)
    if wait:
        raise answers.RefusedError(
            429,
            "TOO_MANY_REQUESTS",
            f"{used.settings.requests_per_minute:,} calls a minute are the most; call again later",
            {"Retry-After": str(math.ceil(wait))},
        )


Caller = Annotated[tokens.Caller, Depends(_caller)]
"""A parameter of this type is whoever is signed in, or one of our services."""


async def _service(caller: Caller) -> tokens.Caller:
    if not caller.is_service:
        raise errors.Forbidden("this is for services; send the secret key")
    return caller


def database_of(caller: tokens.Caller, used: services.Services) -> Database:
    """See the database as the caller does; row level security decides."""
    return used.database if caller.is_service else used.database.acting_as(caller.user())


def guards(name: str) -> list[params.Depends]:
    """Let those in whom supabase/config.toml names for a function, while it is switched on.

    Calls of services are noted; those of people are many, and their documents tell of them.
    """
    if switchboard.wants_user_jwt(name):
        return [Depends(_caller), Depends(switched_on(name))]
    return [Depends(_service), Depends(switched_on(name)), Depends(runs.noted(name))]


def guarded_router(name: str, *refusals: int) -> APIRouter:
    """Make the router of a function, at its name, behind its guards."""
    return APIRouter(
        prefix=f"/{name}",
        tags=[name],
        dependencies=guards(name),
        responses=answers.documented(*refusals, 401, 403, 429, 503),
    )


def switched_on(name: str) -> Callable[[services.Services], Awaitable[None]]:
    """Refuse while edge_function_config says that the function is off.

    It is asked at every call: whoever throws the switch means now.
    """

    async def require(used: services.Used) -> None:
        rows = await used.database.select(
            tables.edge_function_config, columns="enabled", where={"function_name": name}
        )
        if rows and not rows[0]["enabled"]:
            raise answers.RefusedError(
                503,
                "SWITCHED_OFF",
                f"{name} is switched off; try again later",
                {"Retry-After": str(OFF_RETRY_SECONDS)},
            )

    return require
