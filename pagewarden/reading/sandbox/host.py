"""Our side of the sandbox: starts the zygote and, from it, children; hears how they end."""

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
from pagewarden.reading.sandbox import confinement, wire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pagewarden.reading.sandbox import duties

MAX_PACKET = 1 << 16
MAX_LANGUAGES = 8
MAX_NAME = 32
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

START_SECONDS = 60.0
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class End:
    """How a child ended: its exit status, or minus the signal.

    memory is its peak in bytes; so much of it as it was born with it shared with all others. lost
    says that the zygote was killed, and every child with it, for no fault of their own.
    """

    status: int
    memory: int = 0
    born_with: int = 0
    lost: bool = False


class Died(Exception):
    """The child did not answer: it is dead, was silent for too long, or talked nonsense."""

    def __init__(self, end: End, *, timed_out: bool = False) -> None:
        super().__init__(end)
        self.end = end
        self.timed_out = timed_out


class Child:
    """A process that reads one document; folder is its own, and gone when it is."""

    def __init__(
        self,
        folder: Path,
        streams: _Streams,
        kill: Callable[[], None],
        ended: asyncio.Future[End],
    ) -> None:
        self.folder = folder
        self._kill = kill
        self._ended = ended
        self._reader, self._writer = streams

    async def ask(
        self, message: Mapping[str, Any], blob: bytes = b"", *, seconds: float, max_blob: int = 0
    ) -> tuple[wire.Message, bytes]:
        """Send a message and wait for the answer; who does not answer in time is killed."""
        try:
            async with asyncio.timeout(seconds):
                await wire.send(self._writer, message, blob)
                return await wire.receive(self._reader, max_blob=max_blob)
        except (TimeoutError, wire.Broken) as exc:
            raise Died(await self.end(), timed_out=isinstance(exc, TimeoutError)) from exc

    async def end(self) -> End:
        """Kill it with all its own children, unless it is dead already, and see it buried."""
        self._writer.transport.abort()
        self._kill()
        cancelled = None
        while not self._ended.done():
            try:
                await asyncio.shield(self._ended)
            except asyncio.CancelledError as exc:  # it takes a moment only, and leaves nothing
                cancelled = exc
        if cancelled is not None:
            raise cancelled
        return self._ended.result()


class Host:
    """Where children come from; folder holds what they may read besides the document's own file.

    Knows the engine's version once it is entered; peak is the most memory, in bytes, that a child
    had. With a duty the children can do that too, besides reading documents.
    """

    def __init__(self, engine: str, profile: str, duty: duties.Duty | None = None) -> None:
        self._load = {
            "engine": engine,
            "profile": profile,
            "duty": dataclasses.asdict(duty) if duty else None,
        }
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._zygote: _Zygote | None = None
        self.folder = Path()
        self.peak = 0

    async def __aenter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="pagewarden-"))
        try:
            await self._living()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._zygote is not None:
                await self._zygote.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def version(self) -> str:
        """Name the version of the engine that the children have."""
        return self._zygote.version if self._zygote else ""

    @contextlib.asynccontextmanager
    async def child(self, languages: Sequence[str] = ()) -> AsyncGenerator[Child]:
        """Have a fresh child, with models for these languages, and end it afterwards."""
        zygote = await self._living()
        number = next(self._numbers)
        folder = self.folder / f"child-{number}"
        ours, theirs = socket.socketpair()
        with theirs:
            streams = await asyncio.open_connection(sock=ours)
            ended = zygote.fork(number, folder, languages, theirs)
        ended.add_done_callback(self._note)
        kill = functools.partial(zygote.send, {"kill": number})
        child = Child(folder, streams, kill, ended)
        try:
            yield child
        finally:
            await child.end()

    def _note(self, ended: asyncio.Future[End]) -> None:
        self.peak = max(self.peak, ended.result().memory)

    async def _living(self) -> _Zygote:
        """Start the zygote, also when the last one was killed."""
        async with self._starting:
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    await self._zygote.stop()
                self._zygote = await _Zygote.start(self._load, self.folder)
            return self._zygote


class _Zygote:
    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        self.alive = True
        self.version = ""
        self.ends: dict[int, asyncio.Future[End]] = {}
        self._ready: asyncio.Future[None] = loop.create_future()
        self._control = control
        self._process = process
        loop.add_reader(control, self._hear)

    @classmethod
    async def start(cls, load: wire.Message, folder: Path) -> Self:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            process = _launch(theirs, load, folder)
        zygote = cls(ours, process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await zygote._ready
        except BaseException:
            process.kill()
            await zygote.stop()
            raise
        return zygote

    def fork(
        self, number: int, folder: Path, languages: Sequence[str], channel: socket.socket
    ) -> asyncio.Future[End]:
        """Order a child, which will wait for its job at the other end of the channel."""
        ended = self.ends[number] = asyncio.get_running_loop().create_future()
        known = [language[:MAX_NAME] for language in languages[:MAX_LANGUAGES]]
        self.send({"fork": number, "folder": str(folder), "languages": known}, channel.fileno())
        if not self.alive:
            self._lose_children()
        return ended

    def send(self, order: Mapping[str, Any], *descriptors: int) -> None:
        """Give an order; to a dead zygote, in vain."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)

    async def stop(self) -> None:
        """End it; it takes its children along."""
        self._lose()
        await asyncio.to_thread(self._bury)

    def _bury(self) -> None:
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _hear(self) -> None:
        try:
            packet = self._control.recv(MAX_PACKET)
        except OSError:
            packet = b""
        message = json.loads(packet or "{}")
        if "exited" in message:
            number = message.pop("exited")
            self.ends.pop(number).set_result(End(**message))
        elif "ready" in message:
            self.version = message["ready"]
            self._ready.set_result(None)
        else:
            self._lose(message)

    def _lose(self, last_words: wire.Message | None = None) -> None:
        """Take note that it is gone, and every child with it."""
        if not self.alive:
            return
        self.alive = False
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        if not self._ready.done():
            self._ready.set_exception(_start_error(last_words or {}))
            self._ready.exception()
        self._lose_children()

    def _lose_children(self) -> None:
        while self.ends:
            self.ends.popitem()[1].set_result(End(-signal.SIGKILL, lost=True))


def _launch(control: socket.socket, load: wire.Message, folder: Path) -> subprocess.Popen[bytes]:
    # -P: no module may come from the folder we happen to be in.
    command = [sys.executable, "-P", "-m", f"{__package__}.zygote"]
    return subprocess.Popen(
        [*command, str(control.fileno()), str(folder), json.dumps(load)],
        env=confinement.environment(),
        pass_fds=(control.fileno(),),
        start_new_session=True,  # Ctrl-C is for us; we end it
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _start_error(last_words: wire.Message) -> errors.PagewardenError:
    if "error" in last_words:
        return wire.unpack_error(last_words["error"])
    return errors.EngineMissing("the sandbox could not be started; see the error output above")
