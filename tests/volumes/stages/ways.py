"""A duty for tests: does what the request asks for, good or bad. Runs in children."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from pagewarden import errors
from pagewarden.volumes.children import parcels

if TYPE_CHECKING:
    from pagewarden.reading.sandbox import duties, wire

FACTS = pydantic.TypeAdapter(list[int])


class Ways:
    """Answers with its process, how much it got, and how many requests it had before."""

    version = "7"

    def __init__(self, *, marks: str) -> None:
        self._before = 0
        self._marks = Path(marks)

    def do(self, work: duties.Work) -> tuple[wire.Message, bytes]:
        """Do as asked."""
        match work.request["way"]:
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
        facts = [os.getpid(), len(work.blob), self._before]
        return parcels.pack(FACTS, facts, [work.blob[::-1]])
