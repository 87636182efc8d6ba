"""A server in place of Pagewarden that records its requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from starlette.types import Receive, Scope, Send

    Behaviour = Callable[[Scope, Receive, Send], Awaitable[None]]

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it arrived."""

    method: str
    target: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of a header that is sent at most once."""
        values = [value for key, value in self.headers if key == name.encode()]
        assert len(values) <= 1, values
        return values[0].decode() if values else None


@dataclass(slots=True)
class Upstream:
    """An ASGI app that sends the same response to every request, or calls `behaviour`."""

    status: int = 200
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    behaviour: Behaviour | None = None
    requests: list[RecordedRequest] = field(default_factory=list)

    def reset(self) -> None:
        """Forget the requests, and respond as initially."""
        self.status, self.headers, self.body = 200, (), b""
        self.behaviour = None
        self.requests.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if self.behaviour is not None:
            await self.behaviour(scope, receive, send)
            return
        body = b"".join([chunk async for chunk in chunks(receive)])
        query = scope["query_string"].decode()
        target = scope["raw_path"].decode() + (f"?{query}" if query else "")
        self.requests.append(RecordedRequest(scope["method"], target, list(scope["headers"]), body))
        await send(
            {"type": "http.response.start", "status": self.status, "headers": list(self.headers)}
        )
        await send({"type": "http.response.body", "body": self.body})


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """Yield a body in chunks; a disconnect ends it."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        if message.get("body"):
            yield message["body"]
