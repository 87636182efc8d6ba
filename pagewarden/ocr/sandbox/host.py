"""Host side of the sandbox: start the zygote and, from it, children; explain how they died."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pagewarden import errors
from pagewarden.ocr.sandbox import confinement, protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pagewarden.ocr import limits
    from pagewarden.ocr.sandbox import tasks

_MAX_PACKET = 1 << 16
_MAX_LANGUAGES = 8
_MAX_LANGUAGE_LENGTH = 32
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
# A zygote holds 200 MB and starts in a second, so an unused one is not kept for long.
IDLE_SECONDS = 300.0

# PDFium, like most C++ programs, aborts if an allocation fails. A buffer that grows by doubling
# fails at a third of the limit.
_SUSPICIOUS_SHARE = 0.25

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended: its exit status, or minus the signal.

    peak_memory is in bytes; it includes the initial memory, which a child shares with all others.
    lost means that the zygote was killed together with all children.
    """

    status: int
    peak_memory: int = 0
    initial_memory: int = 0
    lost: bool = False


class ChildDied(Exception):
    """A child did not answer: it died, timed out after these seconds or sent an invalid message."""

    def __init__(
        self, child_exit: ChildExit, *, timed_out: bool = False, seconds: float = 0.0
    ) -> None:
        super().__init__(child_exit)
        self.exit = child_exit
        self.timed_out = timed_out
        self.seconds = seconds


class Sandbox:
    """Starts children; folder has the files that they may read besides the document itself.

    The version of the engine or task is known once the sandbox is entered. The zygote loads the
    task and imports the modules to preload once, and all children share their memory. It ends after
    idle_seconds without a child, and the next child starts another one. peak_memory is the highest
    memory use of a child, in bytes.
    """

    def __init__(
        self,
        engine: str,
        profile: str,
        *,
        task: tasks.SandboxTask | None = None,
        preload: Sequence[str] = (),
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._load = {
            "engine": engine,
            "profile": profile,
            "task": dataclasses.asdict(task) if task else None,
            "preload": list(preload),
        }
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._zygote: _Zygote | None = None
        self._idle_seconds = idle_seconds
        self._in_use = 0
        self._idle_stop: asyncio.Task[None] | None = None
        self.version = ""
        """Version of everything that affects the children's results."""
        self.folder = Path()
        self.peak_memory = 0

    async def __aenter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="pagewarden-"))
        try:
            async with self._use_zygote():
                pass
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._cancel_idle_stop()
            if self._zygote is not None:
                await self._zygote.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def child(
        self,
        bounds: limits.Limits,
        *,
        task: tasks.SandboxTask | None = None,
        languages: Sequence[str] = (),
        remote_engine: str | None = None,
    ) -> AsyncGenerator[SandboxChild]:
        """Start a child with models for these languages; it is killed at the end.

        It runs the given task, or else the one that the zygote has loaded. remote_engine is the
        name of an engine that the host calls for the child.
        """
        async with self._use_zygote() as zygote:
            number = next(self._numbers)
            folder = self.folder / f"child-{number}"
            ours, theirs = socket.socketpair()
            with theirs:
                streams = await asyncio.open_connection(sock=ours)
                exited = zygote.fork(number, folder, languages, theirs)
            exited.add_done_callback(self._record_memory)
            child = SandboxChild(
                folder, streams, functools.partial(zygote.send, {"kill": number}), exited
            )
            try:
                whole = task is not None and task.whole_document
                await child.send_setup(
                    {
                        "folder": str(folder),
                        "limits": dataclasses.asdict(bounds),
                        "cpu_seconds": bounds.document_seconds
                        if whole
                        else bounds.page_cpu_seconds,
                        "task": dataclasses.asdict(task) if task else None,
                        "engine": remote_engine,
                    }
                )
                yield child
            finally:
                await child.kill()

    def _record_memory(self, exit_future: asyncio.Future[ChildExit]) -> None:
        self.peak_memory = max(self.peak_memory, exit_future.result().peak_memory)

    @contextlib.asynccontextmanager
    async def _use_zygote(self) -> AsyncGenerator[_Zygote]:
        """Lend the zygote, which does not end meanwhile."""
        self._in_use += 1
        try:
            await self._cancel_idle_stop()
            yield await self._ensure_zygote()
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._idle_stop = asyncio.create_task(self._stop_when_idle())

    async def _cancel_idle_stop(self) -> None:
        if self._idle_stop is not None:
            stopping, self._idle_stop = self._idle_stop, None
            stopping.cancel()
            await asyncio.wait({stopping})

    async def _stop_when_idle(self) -> None:
        await asyncio.sleep(self._idle_seconds)
        async with self._starting:
            if self._zygote is not None:
                # Its folder stays, for the next one.
                self._zygote.send({"end": True})
                await self._zygote.stop()
                self._zygote = None

    async def _ensure_zygote(self) -> _Zygote:
        """Return the zygote; start one if there is none or the last one was killed."""
        async with self._starting:
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    await self._zygote.stop()
                self._zygote = await _Zygote.start(self._load, self.folder)
                self.version = self._zygote.version
            return self._zygote


class SandboxChild:
    """A sandboxed process; its folder is removed when it ends."""

    def __init__(
        self,
        folder: Path,
        streams: _Streams,
        send_kill: Callable[[], None],
        exited: asyncio.Future[ChildExit],
    ) -> None:
        self.folder = folder
        self._send_kill = send_kill
        self._exited = exited
        self._reader, self._writer = streams

    async def send_setup(self, setup: Mapping[str, Any]) -> None:
        """Send the first message, which has no answer; `ask` raises if the child is dead."""
        with contextlib.suppress(protocol.ProtocolError):
            await protocol.send(self._writer, setup)

    async def ask(
        self, message: Mapping[str, Any], blob: bytes = b"", *, seconds: float, max_blob: int = 0
    ) -> tuple[protocol.Message, bytes]:
        """Send a message and wait for the answer; kill the child if it does not answer in time."""
        try:
            async with asyncio.timeout(seconds):
                await protocol.send(self._writer, message, blob)
                return await protocol.receive(self._reader, max_blob=max_blob)
        except (TimeoutError, protocol.ProtocolError) as exc:
            timed_out = isinstance(exc, TimeoutError)
            raise ChildDied(await self.kill(), timed_out=timed_out, seconds=seconds) from exc

    async def kill(self) -> ChildExit:
        """Kill the process with all its own children, unless it is dead, and wait for its end."""
        self._writer.transport.abort()
        self._send_kill()
        cancelled = None
        while not self._exited.done():
            try:
                await asyncio.shield(self._exited)
            except asyncio.CancelledError as exc:  # wait nevertheless: it is short, and cleans up
                cancelled = exc
        if cancelled is not None:
            raise cancelled
        return self._exited.result()


class _Zygote:
    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        self.alive = True
        self.version = ""
        self._exits: dict[int, asyncio.Future[ChildExit]] = {}
        self._ready: asyncio.Future[None] = loop.create_future()
        self._control = control
        self._process = process
        loop.add_reader(control, self._receive)

    @classmethod
    async def start(cls, preload_message: protocol.Message, folder: Path) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = _launch(theirs, preload_message, folder)
        zygote = cls(ours, process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await zygote._ready
        except BaseException:
            process.kill()
            await zygote.stop()
            raise
        return zygote

    def fork(
        self, number: int, folder: Path, languages: Sequence[str], channel: socket.socket
    ) -> asyncio.Future[ChildExit]:
        """Request a child, which waits for its setup at the other end of the channel."""
        exited = self._exits[number] = asyncio.get_running_loop().create_future()
        hints = [language[:_MAX_LANGUAGE_LENGTH] for language in languages[:_MAX_LANGUAGES]]
        self.send({"fork": number, "folder": str(folder), "languages": hints}, channel.fileno())
        if not self.alive:
            self._mark_children_lost()
        return exited

    def send(self, order: Mapping[str, Any], *descriptors: int) -> None:
        """Send an order; a dead zygote ignores it."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)

    async def stop(self) -> None:
        """End the zygote; it kills its children."""
        self._mark_dead()
        await asyncio.to_thread(self._wait_for_exit)

    def _wait_for_exit(self) -> None:
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _receive(self) -> None:
        try:
            packet = self._control.recv(_MAX_PACKET)
        except OSError:
            packet = b""
        message = json.loads(packet or "{}")
        if "exited" in message:
            number = message.pop("exited")
            self._exits.pop(number).set_result(ChildExit(**message))
        elif "ready" in message:
            self.version = message["ready"]
            self._ready.set_result(None)
        else:
            self._mark_dead(message)

    def _mark_dead(self, last_message: protocol.Message | None = None) -> None:
        """Record that the zygote and all its children are dead."""
        if not self.alive:
            return
        self.alive = False
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if not self._ready.done():
            self._ready.set_exception(_start_error(last_message or {}))
            self._ready.exception()  # retrieved, so that asyncio does not log it
        self._mark_children_lost()

    def _mark_children_lost(self) -> None:
        while self._exits:
            self._exits.popitem()[1].set_result(ChildExit(-signal.SIGKILL, lost=True))


def explain_death(
    child_death: ChildDied, location: str, bounds: limits.Limits
) -> errors.ReadingError:
    """Return the error that explains why the child died; location names the file and the page."""
    status = child_death.exit.status
    if child_death.timed_out:
        return _page_timeout_error(location, f"{bounds.page_seconds:g} s")
    if status == -signal.SIGXCPU:
        return _page_timeout_error(location, f"{bounds.page_cpu_seconds:g} s of CPU time")
    crashed = status < 0 and status != -signal.SIGKILL
    own_memory = child_death.exit.peak_memory - child_death.exit.initial_memory
    ran_out = crashed and own_memory > _SUSPICIOUS_SHARE * bounds.memory_bytes
    if ran_out or status == confinement.OUT_OF_MEMORY:
        return errors.OutOfMemory(
            f"{location}: reading it exceeds the memory limit of "
            f"{bounds.memory_bytes / 1e6:,.0f} MB. Scale it down, or raise the limit."
        )
    return errors.ReaderKilled(
        f"{location}: the process reading it died ({_describe_status(status)}). The file may be "
        "damaged or malicious; if you trust it, print it to a new PDF and use that."
    )


def document_timeout_error(name: str, bounds: limits.Limits) -> errors.ReadingTimedOut:
    """Return the error for a document that takes too long as a whole."""
    return errors.ReadingTimedOut(
        f"{name}: timed out after {bounds.document_seconds:g} s. Split it, or raise the time limit "
        "per document."
    )


def _page_timeout_error(location: str, limit: str) -> errors.ReadingTimedOut:
    return errors.ReadingTimedOut(
        f"{location}: timed out after {limit}. Try again when the machine is less busy, or raise "
        "the "
        "time limit per page."
    )


def _describe_status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else str(signal.strsignal(-status))


def _launch(
    control: socket.socket, preload_message: protocol.Message, folder: Path
) -> subprocess.Popen[bytes]:
    # -P: never import a module from the current folder.
    command = [sys.executable, "-P", "-m", f"{__package__}.zygote"]
    return subprocess.Popen(
        [*command, str(control.fileno()), str(folder), json.dumps(preload_message)],
        env=confinement.make_child_environment(),
        pass_fds=(control.fileno(),),
        start_new_session=True,  # Ctrl-C goes to the host, which ends the zygote
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _start_error(last_message: protocol.Message) -> errors.PagewardenError:
    if "error" in last_message:
        return protocol.unpack_error(last_message["error"])
    return errors.EngineNotInstalled("the sandbox could not be started; see the error output above")
