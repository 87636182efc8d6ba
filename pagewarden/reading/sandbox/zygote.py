"""The process from which children are forked: libraries imported, models loaded, no threads.

It talks to the host over one socket: "fork" comes with a folder to make for the child and with
its end of a channel, "kill" with its number. For each child there is one answer, "exited", with
how it ended and what it took, once nothing of it is left. When the host is gone, the zygote kills
every child, removes the folder of them all and goes too.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from pagewarden import exports
from pagewarden.reading import engine, engines, limits, opening, upright
from pagewarden.reading.sandbox import child, confinement, duties, wire

# What a child would import by itself when it comes to it, each one anew.
LIBRARIES = ("encodings.ascii", "numpy.ma")
MAX_PACKET = 1 << 16
YOUNG_OBJECTS = 100_000
"""How many objects a child makes before it looks for garbage; most documents end before."""
MOST_LANGUAGES = 16
"""How many sets of languages are kept in memory for all children."""


# Its font is none of those that PDFium knows by itself.
_WRITTEN_PAGE = b"""%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R
  /Resources<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length 44>> stream
BT /F 9 Tf 20 99 Td (every page, none lost) Tj ET
endstream endobj
5 0 obj <</Type/Font/Subtype/TrueType/BaseFont/Verdana>> endobj
trailer <</Root 1 0 R>>
"""


@dataclass(frozen=True, slots=True)
class Child:
    """A child as the host knows it; born_with is the memory it shares with all others."""

    number: int
    folder: str
    born_with: int = 0


class Zygote:
    """Forks, kills and reaps at the host's word."""

    def __init__(self, control: socket.socket, loaded: duties.Loaded) -> None:
        self._control = control
        self._loaded = loaded
        self._children: dict[int, Child] = {}
        self._prepared: set[tuple[str, ...]] = set()

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
        for pid in self._children:
            _kill_group(pid)
        self._children.clear()
        self._kill_orphans()

    def _obey(self) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        except ConnectionResetError:  # the host was killed before it had heard all we said
            return False
        if not packet:
            return False
        order = json.loads(packet)
        if "fork" in order:
            self._prepare(tuple(order["languages"]))
            with contextlib.closing(socket.socket(fileno=descriptors[0])) as channel:
                self._fork(Child(order["fork"], order["folder"]), channel.fileno())
        else:
            for pid, found in self._children.items():
                if found.number == order["kill"]:
                    _kill_group(pid)
        return True

    def _prepare(self, languages: tuple[str, ...]) -> None:
        """Load models once for all children; an engine that cannot will tell them why."""
        new = languages not in self._prepared and len(self._prepared) < MOST_LANGUAGES
        if new and isinstance(self._loaded.engine, engines.Preparing):
            self._prepared.add(languages)
            with contextlib.suppress(Exception):
                self._loaded.engine.prepare(engine.Hints(languages))

    def _fork(self, new: Child, channel: int) -> None:
        parent = os.getpid()
        try:
            Path(new.folder).mkdir()
            pid = os.fork()
        except OSError:
            self._say(exited=new.number, status=-signal.SIGKILL, memory=0, born_with=0)
            return
        if pid == 0:
            child.run(channel, parent, self._loaded)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._children[pid] = replace(new, born_with=confinement.resident(pid))

    def _reap(self, ear: int) -> bool:
        """Bury the dead; their number is not given up before their own children are killed."""
        os.read(ear, MAX_PACKET)
        with contextlib.suppress(ChildProcessError):
            while info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                _kill_group(info.si_pid)
                _, status, usage = os.wait4(info.si_pid, 0)
                dead = self._children.pop(info.si_pid, None)
                self._kill_orphans()
                if dead is not None:
                    shutil.rmtree(dead.folder, ignore_errors=True)
                    self._say(
                        exited=dead.number,
                        status=os.waitstatus_to_exitcode(status),
                        memory=usage.ru_maxrss * 1024,
                        born_with=dead.born_with,
                    )
        return True

    def _kill_orphans(self) -> None:
        """Kill what a dead child left behind in process groups of its own."""
        mine = Path(f"/proc/self/task/{os.getpid()}/children")
        with contextlib.suppress(OSError):
            while orphans := set(map(int, mine.read_text("ascii").split())) - set(self._children):
                for orphan in orphans:
                    os.kill(orphan, signal.SIGKILL)
                    os.waitpid(orphan, 0)

    def _say(self, **message: Any) -> None:  # noqa: ANN401  # JSON
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())


def main(descriptor: str, folder: str, what: str) -> None:
    """Load everything, say so, and serve."""
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    confinement.adopt_orphans()
    confinement.leave_network()
    confinement.drop_rights()
    with contextlib.suppress(ConnectionError):  # the host was killed while we loaded
        try:
            loaded = load(json.loads(what), Path(folder))
        except Exception as exc:  # noqa: BLE001  # the host raises it
            control.send(json.dumps({"error": wire.pack_error(exc)}).encode())
            return
        # Children share the memory of what is here now; the collector would write to all of it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        control.send(json.dumps({"ready": loaded.version}).encode())
        Zygote(control, loaded).serve()
    shutil.rmtree(folder, ignore_errors=True)


def load(what: wire.Message, folder: Path) -> duties.Loaded:
    """Import all that children need, and load the engine and the duty, if there is to be one."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for form in exports.FORMATS.values():
        if form.needs_original:
            form.load()
    Image.init()
    cv2.setNumThreads(1)
    upright.straighten(_drawn_page())
    _read_written_page(folder / "written.pdf")
    made = engines.make(what["engine"], what["profile"]) if what["engine"] else None
    duty = duties.Duty(**what["duty"]).make() if what["duty"] else None
    return duties.Loaded(made, duty)


def _drawn_page() -> engine.PageImage:
    """Draw a page with so much text that all is loaded which real pages need."""
    pixels = np.full((1400, 1000), 255, np.uint8)
    for line in range(100, 1300, 40):
        cv2.putText(pixels, "Every page read, none lost", (80, line), 0, 1.2, (0,), 2)
    return engine.PageImage(pixels, 120)


def _read_written_page(path: Path) -> None:
    """Have PDFium look through the fonts of this machine; a child would, for every document."""
    path.write_bytes(_WRITTEN_PAGE)
    document = opening.open_document(path, limits.Limits())
    document.page(1).layer()
    document.close()
    path.unlink()


def _kill_group(leader: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
