"""Main loop of a child: confine itself, then run its task for each request of the host.

A child is forked for one document or one kind of task, and never handles another one.
"""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from typing import NoReturn

import cv2
import numpy as np

from pagewarden.ocr import limits, pages
from pagewarden.ocr.engines import base
from pagewarden.ocr.sandbox import confinement, protocol, tasks


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """An engine that needs the network: the child sends the pixels, and the host calls it."""

    connection: protocol.ChildConnection
    name: str
    version: str = ""

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Let the host recognise the page; it knows the hints."""
        del hints
        pixels = np.ascontiguousarray(image.pixels)
        shape = {"shape": pixels.shape, "dpi": image.dpi}
        self.connection.send({"image": shape}, pixels.reshape(-1).data)
        received = self.connection.receive()
        if received is None:
            raise SystemExit
        answer, _ = received
        if "error" in answer:
            raise protocol.unpack_error(answer["error"])
        lines = [pages.line_from_json(line) for line in answer["lines"]]
        return base.RecognitionResult(lines, pages.Usage(**answer["usage"]))


def run(channel: int, parent: int, loaded: tasks.PreloadedModels) -> NoReturn:
    """Run as a child, from the fork to the exit."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        descriptor = confinement.detach_from_parent(channel, parent)
        _serve(protocol.ChildConnection(socket.socket(fileno=descriptor)), loaded)
        status = 0
    finally:
        os._exit(status)


def _serve(connection: protocol.ChildConnection, loaded: tasks.PreloadedModels) -> None:
    """Confine the process as the first message requires, then answer requests until the host exits.

    The folder of the child is removed with it, so a child outlives its last answer.
    """
    received = connection.receive()
    if received is None:
        return
    setup, _ = received
    bounds = limits.Limits(**setup["limits"])
    confinement.confine_to_folder(setup["folder"])
    confinement.limit_resources(memory=bounds.memory_bytes, file_size=2 * bounds.file_bytes)
    engine = loaded.engine or RemoteEngine(connection, setup["engine"])
    task = None if setup["task"] else loaded.task
    while received := connection.receive():
        confinement.grant_cpu(setup["cpu_seconds"])
        try:
            if task is None:
                task = tasks.SandboxTask(**setup["task"]).load()
            answer = task.run(tasks.TaskRequest(*received, bounds, engine))
        except Exception as exc:  # noqa: BLE001  # foreign libraries raise anything
            if _is_out_of_memory(exc):
                os._exit(confinement.OUT_OF_MEMORY)
            answer = {"error": protocol.pack_error(exc)}, b""
        connection.send(*answer)


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Search the chain of causes: a library may report the error as a damaged file."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, cv2.error) and error.code == cv2.Error.StsNoMem:
            return True
        error = error.__cause__ or error.__context__
    return False
