"""Try again when somebody changed the same thing at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database.interface import Database

T = TypeVar("T")

RETRY_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)


async def with_retries(
    call: Callable[[], Awaitable[T]],
    *,
    database: Database | None = None,
    case_id: str | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Make the call again after a conflict, five times at most; then the conflict is raised.

    Where a database is given, it is written down there that we gave up, with the case it was about.
    """
    for seconds in RETRY_SECONDS:
        try:
            return await call()
        except errors.Conflict:
            # A quarter more or less, so that two who met do not meet again.
            await sleep(seconds * random.uniform(0.75, 1.25))  # noqa: S311  # no secret
    try:
        return await call()
    except errors.Conflict as exc:
        if database is not None:
            with contextlib.suppress(errors.DatabaseError):  # the conflict itself is what is told
                await database.report_conflict(message=str(exc), case_id=case_id)
        raise
