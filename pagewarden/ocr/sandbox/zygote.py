"""The process from which children are forked: libraries imported, models loaded, no threads.

It talks to the host over one socket: "fork" comes with the folder to create for the child and with
the child's end of a channel, "kill" with the number of the child. For each child there is one
answer, "exited", with its exit status and memory, after it was cleaned up. When the host exits, the
zygote kills every child, removes their common folder and exits; after "end" it leaves the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
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

from pagewarden.ocr import engines, limits, pipeline
from pagewarden.ocr.document import open_document
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import orientation
from pagewarden.ocr.sandbox import child, confinement, protocol, tasks

# Modules that libraries import late: without this, every child would import them again.
_LATE_IMPORTS = (pipeline.__name__, "encodings.ascii", "numpy.ma")
_MAX_PACKET = 1 << 16
# Objects that a child allocates before it collects garbage; most documents end before.
_GC_THRESHOLD = 100_000
# Sets of languages whose models are kept in memory for all children.
_MAX_LANGUAGE_SETS = 16

# Its font is not one of the standard fonts that PDFium has built in.
_PDF_PAGE = b"""%PDF-1.4
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
    """A child with the number that the host gave it, and the memory that it shares with others."""

    number: int
    folder: str
    initial_memory: int = 0


class Zygote:
    """Forks, kills and reaps children on the orders of the host."""

    def __init__(self, control: socket.socket, loaded: tasks.PreloadedModels) -> None:
        self._control = control
        self._loaded = loaded
        self._children: dict[int, Child] = {}
        self._prepared: set[tuple[str, ...]] = set()
        self.keeps_folder = False

    def serve(self) -> None:
        """Serve until the host exits or ends this zygote."""
        wakeup, signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(signals)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(wakeup, selectors.EVENT_READ, lambda: self._reap(wakeup))
            selector.register(self._control, selectors.EVENT_READ, self._handle_request)
            while all(key.data() for key, _ in selector.select()):
                pass
        for pid in self._children:
            _kill_group(pid)
        self._children.clear()
        self._kill_orphans()

    def _handle_request(self) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._control, _MAX_PACKET, 1)
        except ConnectionResetError:  # the host was killed before it read all messages
            return False
        if not packet:
            return False
        order = json.loads(packet)
        if "fork" in order:
            self._prepare(tuple(order["languages"]))
            with contextlib.closing(socket.socket(fileno=descriptors[0])) as channel:
                self._fork(Child(order["fork"], order["folder"]), channel.fileno())
        elif "end" in order:
            self.keeps_folder = True
            return False
        else:
            for pid, found in self._children.items():
                if found.number == order["kill"]:
                    _kill_group(pid)
        return True

    def _prepare(self, languages: tuple[str, ...]) -> None:
        """Load models once for all children; an engine that fails here fails again in the child."""
        new = languages not in self._prepared and len(self._prepared) < _MAX_LANGUAGE_SETS
        if new and isinstance(self._loaded.engine, base.SupportsPrepare):
            self._prepared.add(languages)
            with contextlib.suppress(Exception):
                self._loaded.engine.prepare(base.PageHints(languages))

    def _fork(self, new: Child, channel: int) -> None:
        parent = os.getpid()
        try:
            Path(new.folder).mkdir()
            pid = os.fork()
        except OSError:
            self._send(exited=new.number, status=-signal.SIGKILL, peak_memory=0, initial_memory=0)
            return
        if pid == 0:
            child.run(channel, parent, self._loaded)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        # A child that has already died cannot be measured; it began with the memory of its parent.
        memory = confinement.get_resident_memory(pid) or confinement.get_resident_memory(parent)
        self._children[pid] = replace(new, initial_memory=memory)

    def _reap(self, wakeup_descriptor: int) -> bool:
        """Reap dead children; kill their process groups first, while their ids are still taken."""
        os.read(wakeup_descriptor, _MAX_PACKET)
        with contextlib.suppress(ChildProcessError):
            while info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                _kill_group(info.si_pid)
                _, status, usage = os.wait4(info.si_pid, 0)
                dead = self._children.pop(info.si_pid, None)
                self._kill_orphans()
                if dead is not None:
                    shutil.rmtree(dead.folder, ignore_errors=True)
                    self._send(
                        exited=dead.number,
                        status=os.waitstatus_to_exitcode(status),
                        peak_memory=usage.ru_maxrss * 1024,
                        initial_memory=dead.initial_memory,
                    )
        return True

    def _kill_orphans(self) -> None:
        """Kill processes that a dead child left behind in other process groups."""
        own_children = Path(f"/proc/self/task/{os.getpid()}/children")
        with contextlib.suppress(OSError):
            while orphans := set(map(int, own_children.read_text("ascii").split())) - set(
                self._children
            ):
                for orphan in orphans:
                    os.kill(orphan, signal.SIGKILL)
                    os.waitpid(orphan, 0)

    def _send(self, **message: Any) -> None:  # noqa: ANN401  # JSON
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())


def main(descriptor: str, folder: str, preload_json: str) -> None:
    """Load everything, report ready, and serve."""
    control = socket.socket(fileno=int(descriptor))
    control.set_inheritable(False)
    confinement.adopt_orphans()
    confinement.leave_network()
    confinement.drop_capabilities()
    with contextlib.suppress(ConnectionError):  # the host was killed meanwhile
        try:
            loaded = load(json.loads(preload_json), Path(folder))
        except Exception as exc:  # noqa: BLE001  # raised in the host
            control.send(json.dumps({"error": protocol.pack_error(exc)}).encode())
            return
        # Children share this memory; the garbage collector would write to all of it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        # The models were parsed and repacked: a quarter of the memory is free, but not given back.
        ctypes.CDLL(None).malloc_trim(0)
        control.send(json.dumps({"ready": loaded.version}).encode())
        zygote = Zygote(control, loaded)
        zygote.serve()
        if zygote.keeps_folder:
            return
    shutil.rmtree(folder, ignore_errors=True)


def load(names: protocol.Message, folder: Path) -> tasks.PreloadedModels:
    """Import and load everything that children share: modules, engine and task."""
    for module in (*_LATE_IMPORTS, *names["preload"]):
        importlib.import_module(module)
    Image.init()
    cv2.setNumThreads(1)
    orientation.straighten(_draw_page())
    _read_pdf_page(folder / "page.pdf")
    engine = engines.load_engine(names["engine"], names["profile"]) if names["engine"] else None
    task = tasks.SandboxTask(**names["task"]).load() if names["task"] else None
    return tasks.PreloadedModels(engine, task)


def _draw_page() -> base.PageImage:
    """Draw a page with enough text to make `straighten` load its models."""
    pixels = np.full((1400, 1000), 255, np.uint8)
    for line in range(100, 1300, 40):
        cv2.putText(pixels, "Every page read, none lost", (80, line), 0, 1.2, (0,), 2)
    return base.PageImage(pixels, 120)


def _read_pdf_page(path: Path) -> None:
    """Make PDFium list the fonts of this machine; otherwise each child would do so."""
    path.write_bytes(_PDF_PAGE)
    document = open_document(path, limits.Limits())
    document.open_page(1).read_text_layer()
    document.close()
    path.unlink()


def _kill_group(group_id: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group_id, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
