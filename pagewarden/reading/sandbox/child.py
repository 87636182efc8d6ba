"""What a child does: confine itself, open one document, read the pages it is asked for.

It is forked for one document and never sees another one.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import cv2
import numpy as np

from pagewarden.reading import (
    engine,
    exporting,
    limits,
    opening,
    pages,
    pipeline,
    spool,
)
from pagewarden.reading.sandbox import confinement, duties, pictures, wire

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """An engine that needs the network: the host calls it, we hand over the pixels."""

    line: wire.Line
    name: str
    version: str = ""

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Ask the host, which knows the hints."""
        del hints
        pixels = np.ascontiguousarray(image.pixels)
        shape = {"shape": pixels.shape, "dpi": image.dpi}
        self.line.send({"image": shape}, pixels.reshape(-1).data)
        answer = self.line.receive()
        if answer is None:
            raise SystemExit
        if "error" in answer:
            raise wire.unpack_error(answer["error"])
        lines = [pages.line_from_json(line) for line in answer["lines"]]
        return engine.Recognised(lines, pages.Usage(**answer["usage"]))


def run(channel: int, parent: int, loaded: duties.Loaded) -> NoReturn:
    """Be the child, from the fork to the end."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kept = confinement.cut_ties(channel, parent)
        _work(wire.Line(socket.socket(fileno=kept)), loaded)
        status = 0
    finally:
        os._exit(status)


def _work(line: wire.Line, loaded: duties.Loaded) -> None:
    job = line.receive()
    if job is None:
        return
    bounds = limits.Limits(**job["limits"])
    confinement.settle(job["folder"])
    confinement.limit(memory=bounds.memory_bytes, file_size=2 * bounds.file_bytes)
    if "format" in job:
        confinement.grant_cpu(bounds.document_seconds)
        _attempt(line, lambda: _export(line, job))
    elif "picture" in job:
        confinement.grant_cpu(bounds.page_cpu_seconds)
        _attempt(line, lambda: _draw(line, job, bounds))
    else:
        reader = loaded.engine or RemoteEngine(line, job["engine"])
        if loaded.duty is None:
            _read(line, job, bounds, reader)
        else:
            _serve(line, bounds, loaded.duty, reader)


def _read(line: wire.Line, job: wire.Message, bounds: limits.Limits, reader: engine.Engine) -> None:
    """Open the document, then read page after page until the host has enough."""
    path, password, name = Path(job["path"]), job["password"], job["name"]
    hints = engine.Hints(tuple(job["languages"]))
    confinement.grant_cpu(bounds.page_cpu_seconds)
    document = _attempt(
        line, lambda: opening.open_document(path, bounds, password=password, name=name)
    )
    if document is None:
        return
    line.send({"opened": document.page_count})
    while request := line.receive():
        confinement.grant_cpu(bounds.page_cpu_seconds)
        read = functools.partial(_page, document, request["page"], reader, hints)
        packed = _attempt(line, read)
        if packed is not None:
            line.send({"read": True}, packed)


def _page(
    document: opening.Document, number: int, reader: engine.Engine, hints: engine.Hints
) -> bytes:
    return wire.pack_page(pipeline.read_page(document.page(number), number, reader, hints))


def _serve(
    line: wire.Line, bounds: limits.Limits, duty: duties.Worker, reader: engine.Engine
) -> None:
    """Do one piece of work after the other until the host has enough."""
    line.send({"ready": True})
    while request := line.receive_both():
        confinement.grant_cpu(bounds.page_cpu_seconds)
        work = duties.Work(*request, bounds, reader)
        done = _attempt(line, functools.partial(duty.do, work))
        if done is not None:
            line.send(*done)


def _export(line: wire.Line, job: wire.Message) -> None:
    export = exporting.Export(
        format=job["format"],
        pages=spool.Spool(Path(job["pages"])),
        source=Path(job["path"]),
        name=job["name"],
        languages=tuple(job["languages"]),
        password=job["password"],
    )
    export.write(Path(job["folder"]) / exporting.RESULT)
    line.send({"written": True})
    line.receive()  # stay until the host has taken it and hangs up: our folder goes with us


def _draw(line: wire.Line, job: wire.Message, bounds: limits.Limits) -> None:
    drawn = pictures.draw(Path(job["path"]), job["name"], job["picture"], bounds)
    line.send({"drawn": True}, drawn)


def _attempt(line: wire.Line, work: Callable[[], T]) -> T | None:
    """Do the work, or tell the host why not."""
    try:
        return work()
    except Exception as exc:  # noqa: BLE001  # whatever foreign libraries come up with
        if _ran_out_of_memory(exc):
            os._exit(confinement.OUT_OF_MEMORY)
        line.send({"error": wire.pack_error(exc)})
        return None


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Look for the cause behind the causes: a library may have taken it for a broken file."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, cv2.error) and error.code == cv2.Error.StsNoMem:
            return True
        error = error.__cause__ or error.__context__
    return False
