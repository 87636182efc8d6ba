"""What children can do besides reading documents, for those who have other foreign bytes to parse.

A duty names a class outside of the sandbox. The zygote makes one of it, so that all children have
it with everything it has loaded; each child then does one piece of work after the other with it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.reading import engine, limits
    from pagewarden.reading.sandbox import wire


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work: what the host asks for, the bytes beside it, limits, and who reads."""

    request: wire.Message
    blob: bytes
    bounds: limits.Limits
    reader: engine.Engine


class Worker(Protocol):
    """Does pieces of work in a child; made in the zygote.

    version names what decides the result, where that is not the engine.
    """

    version: str

    def do(self, work: Work) -> tuple[wire.Message, bytes]:
        """Do one; gives the answer and the bytes beside it, or raises an error of ours."""
        ...


@dataclass(frozen=True, slots=True)
class Duty:
    """Where the class of a worker is found, and what it is made of: whatever JSON can carry."""

    module: str
    maker: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Worker:
        """Load it."""
        made: Worker = getattr(importlib.import_module(self.module), self.maker)(**self.options)
        return made


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the zygote has for its children."""

    engine: engine.Engine | None = None
    duty: Worker | None = None

    @property
    def version(self) -> str:
        """Name what decides the result."""
        if self.duty is not None and self.duty.version:
            return self.duty.version
        return self.engine.version if self.engine else ""
