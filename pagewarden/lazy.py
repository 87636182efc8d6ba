"""Things that take time or memory to open, and are opened when somebody first needs them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

T = TypeVar("T")


class Lazy(Generic[T]):
    """Something that is opened at most once, however many ask for it at the same time.

    What could not be opened is tried again for the next who asks. Made by opened().
    """

    def __init__(
        self,
        make: Callable[[], contextlib.AbstractAsyncContextManager[T]],
        resources: contextlib.AsyncExitStack,
    ) -> None:
        self._make = make
        self._resources = resources
        self._lock = asyncio.Lock()
        self._made: list[T] = []

    async def get(self) -> T:
        """Open it, or take what is open."""
        async with self._lock:
            if not self._made:
                self._made.append(await self._resources.enter_async_context(self._make()))
        return self._made[0]


@contextlib.asynccontextmanager
async def opened(
    make: Callable[[], contextlib.AbstractAsyncContextManager[T]],
) -> AsyncIterator[Lazy[T]]:
    """Have something that will be open when it is needed, and closed at the end if it was."""
    async with contextlib.AsyncExitStack() as resources:
        yield Lazy(make, resources)
