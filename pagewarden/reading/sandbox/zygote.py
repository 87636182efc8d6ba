"""The process from which children are forked: libraries imported, models loaded, no threads.

It talks to the host over one socket: "fork" comes with the child's end of a channel, "kill" with
the child's number; it answers "exited" for each child, with how it ended and what it took. When
the host is gone, it kills every child, removes their folder and goes too.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden.reading import engines
from pagewarden.reading.sandbox import child, confinement, wire

if TYPE_CHECKING:
    from pagewarden.reading import engine

LIBRARIES = ("cv2", "pikepdf", "pillow_heif", "pypdfium2", "pagewarden.exports")
MAX_PACKET = 4096


class Zygote:
    """Forks, kills and reaps at the host's word."""

    def __init__(self, control: socket.socket, loaded: engine.Engine | None) -> None:
        self._control = control
        self._engine = loaded
        self._numbers: dict[int, int] = {}
        self._baseline = confinement.resident()

    def serve(self) -> None:
        """Work until the host is gone."""
        ear, mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(mouth)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(ear, selectors.EVENT_READ, lambda: self._reap(ear))
            selector.register(self._control, selectors.EVENT_READ, self._obey)
            while all(key.data() for key, _ in selector.select()):
                pass
        for pid in self._numbers:
            _kill_group(pid)

    def _obey(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        if not packet:
            return False
        order = json.loads(packet)
        if "fork" in order:
            self._fork(order["fork"], descriptors[0])
        else:
            for pid, number in self._numbers.items():
                if number == order["kill"]:
                    _kill_group(pid)
        return True

    def _fork(self, number: int, channel: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._say(exited=number, status=-signal.SIGKILL, memory=0)
        else:
            if pid == 0:
                child.run(channel, parent, self._engine)
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)
            self._numbers[pid] = number
        os.close(channel)

    def _reap(self, ear: int) -> bool:
        """Bury the dead; their number is not given up before their own children are killed."""
        os.read(ear, MAX_PACKET)
        with contextlib.suppress(ChildProcessError):
            while info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                number = self._numbers.pop(info.si_pid, None)
                if number is not None:
                    _kill_group(info.si_pid)
                _, status, usage = os.wait4(info.si_pid, 0)
                self._kill_orphans()
                if number is not None:
                    memory = max(0, usage.ru_maxrss * 1024 - self._baseline)
                    code = os.waitstatus_to_exitcode(status)
                    self._say(exited=number, status=code, memory=memory)
        return True

    def _kill_orphans(self) -> None:
        """Kill what a dead child left behind in a process group of its own."""
        me = os.getpid()
        with contextlib.suppress(OSError):
            for word in Path(f"/proc/self/task/{me}/children").read_text("ascii").split():
                if int(word) not in self._numbers:
                    os.kill(int(word), signal.SIGKILL)

    def _say(self, **message: Any) -> None:  # noqa: ANN401  # JSON
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())


def main(descriptor: str, name: str, profile: str, folder: str) -> None:
    """Load everything, say so, and serve."""
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    confinement.adopt_orphans()
    confinement.leave_network()
    try:
        loaded = _load(name, profile)
    except Exception as exc:  # noqa: BLE001  # the host raises it
        control.send(json.dumps({"error": wire.pack_error(exc)}).encode())
        return
    # Children share the memory of what is here now; the collector would write to all of it.
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"ready": loaded.version if loaded else ""}).encode())
    Zygote(control, loaded).serve()
    shutil.rmtree(folder, ignore_errors=True)


def _load(name: str, profile: str) -> engine.Engine | None:
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.modules["cv2"].setNumThreads(1)
    return engines.make(name, profile) if name else None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
