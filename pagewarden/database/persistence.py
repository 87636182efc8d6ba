"""Calls that wait for a database that is away."""

from __future__ import annotations

import asyncio
import functools
import random
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import structlog

from pagewarden import errors
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Params = ParamSpec("Params")
T = TypeVar("T")

log = structlog.get_logger(__name__)

# Pauses while the database is away. Once it is back, every lock is renewed before it expires.
RECONNECT_SECONDS = (0.1, 0.25, 0.5)


async def persist(
    call: Callable[Params, Awaitable[T]], *args: Params.args, **params: Params.kwargs
) -> T:
    """Call until the database is there again; for calls that may be made twice."""
    failures = 0
    while True:
        try:
            return await call(*args, **params)
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("database_away", call=_name(call), error=str(exc))
            metrics.current().calls_again.inc()
            pause = RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]
            # Not all at the same moment.
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311  # no secret
            failures += 1


def _name(call: Callable[..., object]) -> str:
    """Name the function of the database that is called."""
    named = call.func if isinstance(call, functools.partial) else call
    return getattr(named, "__name__", repr(named))
