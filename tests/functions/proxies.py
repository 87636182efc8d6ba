"""A gateway between a dispatcher and its invocations, which fails as the test says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

ERROR_PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(slots=True)
class Proxy:
    """Forwards calls to `target`, or does what `answer` says."""

    target: str = ""
    url: str = ""
    answer: Callable[[Call], Awaitable[Response]] | None = None
    functions: list[str] = field(default_factory=list)
    running: set[asyncio.Task[Response]] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        call = Call(self, request.url.path, dict(request.headers), await request.body())
        self.functions.append(call.function)
        response = await (self.answer(call) if self.answer else call.forward())
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function."""

    proxy: Proxy
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def function(self) -> str:
        """Name the function."""
        return self.path.rpartition("/")[2]

    @property
    def document(self) -> dict[str, Any]:
        """Return the document that is handed over."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    async def forward(self) -> Response:
        """Have the function answer."""
        async with httpx.AsyncClient(timeout=60) as client:
            headers = {"apikey": self.headers["apikey"], "content-type": "application/json"}
            url = self.proxy.target + self.path
            answer = await client.post(url, content=self.body, headers=headers)
        return Response(answer.content, answer.status_code, media_type="application/json")

    def forward_later(self) -> None:
        """Have the function called, whatever the dispatcher is told."""
        task = asyncio.create_task(self.forward())
        self.proxy.running.add(task)


async def error_page(_call: Call) -> Response:
    """Answer like a proxy whose upstream is away."""
    return HTMLResponse(ERROR_PAGE, 502)


async def welcome_page(_call: Call) -> Response:
    """Answer like a proxy that knows no such path."""
    return HTMLResponse("<html>Welcome!</html>")
