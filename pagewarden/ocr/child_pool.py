"""What pools of sandboxed children share: process slots, conversations, and what follows a death.

`page_pool` reads one document with children that have opened it; the process pool of volumes gives
any child any page. Both wait for `ProcessSlots`, talk to a child through its `ChildSession`, and
ask `DeathPolicy` whether the page of a dead child is repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors
from pagewarden.ocr import engines
from pagewarden.ocr.engines import base
from pagewarden.ocr.engines.remote import recognise_remotely
from pagewarden.ocr.sandbox import host, protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from pagewarden.ocr import limits
    from pagewarden.ocr.sandbox import tasks

T = TypeVar("T")

# With a remote engine, children mostly wait.
REMOTE_PROCESSES = 8
# How often work is repeated because the sandbox itself was killed.
_MAX_LOST_CHILDREN = 3
# Releasing a slot costs a fork and opening the document again, about 50 ms.
SLOT_SECONDS = 2.0
# A helper waits so long for a slot that became free: the next document may be about to start, and
# would otherwise wait for the helper's page.
HELPER_DELAY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Host:
    """What this process does for the children: the engine that needs the network, with hints.

    engine is None if the children have the engine themselves.
    """

    engine: base.Engine | None = None
    hints: base.PageHints = field(default_factory=base.PageHints)

    async def recognise(self, message: protocol.Message, pixels: bytes) -> protocol.Message:
        """Read an image by the engine on behalf of a child."""
        if self.engine is None:
            raise protocol.ProtocolError("the child has its own engine")
        try:
            return await recognise_remotely(self.engine, message["image"], pixels, self.hints)
        except errors.PAGE_ERRORS as exc:
            return {"error": protocol.pack_error(exc)}


class ChildSession:
    """The conversation with a child; a child that breaks the protocol counts as dead.

    is_idle: the child has answered, and can be asked again. is_new: it has not answered yet.
    """

    def __init__(self, child: host.SandboxChild, served_by: Host) -> None:
        self.child = child
        self.is_idle = self.is_new = True
        self._host = served_by

    async def ask(
        self,
        message: protocol.Message,
        blob: bytes = b"",
        *,
        seconds: Callable[[], float],
        max_blob: int,
        parse: Callable[[protocol.Message, bytes], T],
    ) -> T:
        """Return the parsed answer to a request; raise the error of the child, or ChildDied.

        `seconds` returns the time limit of each message.
        """
        self.is_idle = False
        try:
            answer, data = await self.child.ask(message, blob, seconds=seconds(), max_blob=max_blob)
            if "image" in answer:
                recognised = await self._host.recognise(answer, data)
                answer, data = await self.child.ask(
                    recognised, seconds=seconds(), max_blob=max_blob
                )
            result: T | errors.PagewardenError = (
                protocol.unpack_error(answer["error"]) if "error" in answer else parse(answer, data)
            )
        except protocol.ProtocolError as exc:
            raise host.ChildDied(await self.child.kill()) from exc
        self.is_idle, self.is_new = True, False
        if isinstance(result, errors.PagewardenError):
            raise result
        return result


@contextlib.asynccontextmanager
async def open_session(
    sandbox: host.Sandbox,
    bounds: limits.Limits,
    served_by: Host,
    *,
    task: tasks.SandboxTask | None = None,
) -> AsyncIterator[ChildSession]:
    """Start a child, by default with the task of the sandbox; it is killed at the end."""
    async with sandbox.child(
        bounds,
        task=task,
        languages=served_by.hints.languages,
        remote_engine=served_by.engine.name if served_by.engine else None,
    ) as child:
        yield ChildSession(child, served_by)


class DeathPolicy:
    """Decides what becomes of the work of children that died."""

    def __init__(self, bounds: limits.Limits) -> None:
        self._bounds = bounds
        self._lost = 0

    def decide(
        self, death: host.ChildDied, location: str, *, is_new: bool
    ) -> errors.ReadingError | None:
        """Return the error of the work; None to repeat it in a new child.

        A child that is not new may have been damaged by earlier work.
        """
        if death.exit.lost and self._lost < _MAX_LOST_CHILDREN:
            self._lost += 1
            return None
        error = host.explain_death(death, location, self._bounds)
        return error if is_new or isinstance(error, errors.ReadingTimedOut) else None


def load_remote_engine(name: str, profile: str) -> base.Engine | None:
    """Load an engine that needs the network; None if it is one for the sandbox."""
    return engines.load_engine(name, profile) if engines.find_engine(name).remote else None


def close_engine(engine: base.Engine | None) -> None:
    """End the calls of an engine."""
    if isinstance(engine, base.SupportsClose):
        engine.close()


def get_process_count(processes: int | None, engine: base.Engine | None) -> int:
    """Return the number of children: as configured, or what suits the engine."""
    return processes or (REMOTE_PROCESSES if engine is not None else os.cpu_count() or 1)


class SlotPriority(enum.IntEnum):
    """The order in which waiting workers get slots."""

    FIRST = 0
    HELPER = 1


class ProcessSlots:
    """A fixed number of slots for child processes, shared by all documents."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[SlotPriority, deque[asyncio.Future[None]]] = {
            priority: deque() for priority in SlotPriority
        }

    @contextlib.asynccontextmanager
    async def hold(self, priority: SlotPriority) -> AsyncGenerator[Slot]:
        """Wait for a slot and hold it."""
        await self._acquire(priority)
        try:
            yield Slot(self, priority)
        finally:
            self._release()

    def has_waiting(self, priority: SlotPriority) -> bool:
        """Tell whether a worker of this priority waits for a slot."""
        return any(not waiter.done() for waiter in self._waiting[priority])

    async def _acquire(self, priority: SlotPriority) -> None:
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # The slot may have been assigned just before the cancellation.
            if waiter.done() and not waiter.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        self._free += 1
        self._hand_over(SlotPriority.FIRST)
        if self._free:
            loop = asyncio.get_running_loop()
            loop.call_later(HELPER_DELAY_SECONDS, self._hand_over, SlotPriority.HELPER)

    def _hand_over(self, priority: SlotPriority) -> None:
        """Give free slots to waiting workers of this priority."""
        while self._free and self._waiting[priority]:
            waiter = self._waiting[priority].popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot in use."""

    slots: ProcessSlots
    priority: SlotPriority
    started: float = field(default_factory=time.monotonic)

    @property
    def must_release(self) -> bool:
        """Whether another worker is entitled to the slot: helpers yield to first workers."""
        if self.priority is SlotPriority.HELPER and self.slots.has_waiting(SlotPriority.FIRST):
            return True
        expired = time.monotonic() - self.started > SLOT_SECONDS
        return expired and any(
            self.slots.has_waiting(priority)
            for priority in SlotPriority
            if priority <= self.priority
        )
