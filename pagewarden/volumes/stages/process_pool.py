"""Pool of sandboxed child processes that work on the pages of one volume in parallel.

A page whose child dies is retried once in a new child, unless that child was new already. If it
fails again, only this page fails.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from pagewarden import SOFTWARE
from pagewarden.ocr import child_pool, limits
from pagewarden.ocr.engines.base import PageHints
from pagewarden.ocr.sandbox import host, protocol, tasks
from pagewarden.volumes.stages import child_protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    import pydantic

    from pagewarden.ocr.engines.base import Engine
    from pagewarden.volumes import config as configs

T = TypeVar("T")

PAGES_AHEAD = 2
"""Pages prefetched for each child process."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A message with bytes for a child, and how to check its response.

    kind is the type of the facts in the response, is_consistent checks them with the files beside
    them. page_name names the page in errors.
    """

    page_name: str
    kind: pydantic.TypeAdapter[T]
    is_consistent: Callable[[T, list[bytes]], bool]
    message: protocol.Message
    blob: bytes = b""

    def unpack(self, message: protocol.Message, blob: bytes) -> tuple[T, list[bytes]]:
        """Parse and check the response."""
        facts, files = child_protocol.unpack(self.kind, message, blob)
        if not self.is_consistent(facts, files):
            raise protocol.ProtocolError("the response does not match the request")
        return facts, files


@dataclass(frozen=True, slots=True, eq=False)
class _PoolChild:
    session: child_pool.ChildSession
    context: AbstractAsyncContextManager[child_pool.ChildSession]


class ProcessPool:
    """At most `width` children of a sandbox, forked when needed; close it with `async with`.

    engine is the engine that children use through this process, because it needs the network.
    """

    def __init__(
        self,
        sandbox: host.Sandbox,
        width: int,
        *,
        languages: Sequence[str] = (),
        engine: Engine | None = None,
        bounds: limits.Limits | None = None,
    ) -> None:
        self.ahead = PAGES_AHEAD * width
        self._sandbox = sandbox
        self._slots = child_pool.ProcessSlots(width)
        self._host = child_pool.Host(engine, PageHints(tuple(languages)))
        self._bounds = bounds or limits.Limits()
        self._idle: list[_PoolChild] = []

    @property
    def version(self) -> str:
        """Return the version of the engine or model that determines the results."""
        engine = self._host.engine
        return (engine.version if engine else self._sandbox.version) or SOFTWARE

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await self._idle.pop().context.__aexit__(None, None, None)

    async def run(self, request: Request[T]) -> tuple[T, list[bytes]]:
        """Run a request in a child and return its response; raise the error of the page."""
        deaths = child_pool.DeathPolicy(self._bounds)
        async with self._slots.hold(child_pool.SlotPriority.FIRST):
            child = await self._take()
            while True:
                try:
                    return await self._ask(child, request)
                except host.ChildDied as death:
                    is_new = child.session.is_new
                    error = deaths.decide(death, request.page_name, is_new=is_new)
                    if error is not None:
                        raise error from death
                child = await self._start()

    async def _take(self) -> _PoolChild:
        """Take an idle child, or fork one."""
        return self._idle.pop() if self._idle else await self._start()

    async def _start(self) -> _PoolChild:
        context = child_pool.open_session(self._sandbox, self._bounds, self._host)
        return _PoolChild(await context.__aenter__(), context)

    async def _ask(self, child: _PoolChild, request: Request[T]) -> tuple[T, list[bytes]]:
        """Send a request to a child; close the child unless it answers."""
        try:
            return await child.session.ask(
                request.message,
                request.blob,
                seconds=lambda: self._bounds.page_seconds,
                max_blob=child_protocol.MAX_BYTES,
                parse=request.unpack,
            )
        finally:
            if child.session.is_idle:
                self._idle.append(child)
            else:
                await child.context.__aexit__(None, None, None)


@contextlib.asynccontextmanager
async def open_pool(
    config: configs.VolumeConfig, task: tasks.SandboxTask, *, with_engine: bool = False
) -> AsyncGenerator[ProcessPool]:
    """Start a sandbox whose children run this task, with the engine of the config if asked."""
    name = config.engine if with_engine else ""
    engine = child_pool.load_remote_engine(name, config.profile) if name else None
    try:
        width = child_pool.get_process_count(config.processes, engine)
        async with (
            host.Sandbox("" if engine else name, config.profile, task=task) as sandbox,
            ProcessPool(sandbox, width, languages=config.languages, engine=engine) as pool,
        ):
            yield pool
    finally:
        child_pool.close_engine(engine)
