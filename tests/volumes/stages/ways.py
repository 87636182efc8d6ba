"""A task for tests: does what the request asks for, good or bad. Runs in children."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from pagewarden import errors
from pagewarden.volumes.stages import child_protocol

if TYPE_CHECKING:
    from pagewarden.ocr.sandbox import protocol, tasks

FACTS = pydantic.TypeAdapter(list[int])


class Ways:
    """Answers with its process, how much it got, and how many requests it had before."""

    version = "7"

    def __init__(self, *, marks: str) -> None:
        self._before = 0
        self._marks = Path(marks)

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Do as asked."""
        match request.message["way"]:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "crash unless fresh":
                if self._before:
                    os.kill(os.getpid(), signal.SIGSEGV)
            case "damaged":
                raise errors.DamagedFile("it is broken; send it again")
            case "nonsense":
                return {"sizes": [3]}, b"xyz"
            case "too little":
                return {"sizes": [100]}, b"xyz"
            case "asleep":
                time.sleep(3600)
        self._before += 1
        facts = [os.getpid(), len(request.blob), self._before]
        return child_protocol.pack(FACTS, facts, [request.blob[::-1]])
