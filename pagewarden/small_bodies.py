"""Requests whose body is held in memory: it must be small, and come soon.

It is read before anybody has asked who sends it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response, routing
from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import Message, Receive

MAX_BYTES = 16_384
SECONDS = 10.0


class Route(routing.APIRoute):
    """A route that reads no more than that, or than a kind of it says."""

    max_bytes = MAX_BYTES
    seconds: float | None = None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the usual handler."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            bounded = _bounded(request.receive, self.max_bytes, self.seconds or SECONDS)
            return await handle(Request(request.scope, bounded))

        return answer


def _bounded(receive: Receive, max_bytes: int, seconds: float) -> Receive:
    deadline = asyncio.get_running_loop().time() + seconds
    left = max_bytes

    async def bounded() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as exc:
            raise HTTPException(408, "the request took too long to arrive") from exc
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, f"a request has at most {max_bytes} bytes")
        return message

    return bounded
