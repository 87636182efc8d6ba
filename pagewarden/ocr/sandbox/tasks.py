"""Tasks: code that sandboxed children run, named by module and class.

The host names the task of a child when it starts the child, and the child loads the class by that
name. A task that loads models is given to the `Sandbox` instead: the zygote then loads it once, and
all children share its memory. Either way, a child runs its task once for each request of the host.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.ocr import limits
    from pagewarden.ocr.engines import base
    from pagewarden.ocr.sandbox import protocol


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A request of the host: a message and bytes, with the limits and the engine of the child."""

    message: protocol.Message
    blob: bytes
    bounds: limits.Limits
    engine: base.Engine


class Task(Protocol):
    """Answers requests in a child.

    version names what determines the results; empty if that is the engine.
    """

    version: str

    def run(self, request: TaskRequest) -> tuple[protocol.Message, bytes]:
        """Return the answer to a request, a message and bytes; raises errors of Pagewarden."""
        ...


@dataclass(frozen=True, slots=True)
class SandboxTask:
    """The module and class of a task, and the arguments of the class, which JSON can represent.

    A task with whole_document has the time limit of a document instead of a page.
    """

    module: str
    class_name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    whole_document: bool = False

    def load(self) -> Task:
        """Import the class and make an instance."""
        task_class = getattr(importlib.import_module(self.module), self.class_name)
        task: Task = task_class(**self.options)
        return task


@dataclass(frozen=True, slots=True)
class PreloadedModels:
    """What the zygote has loaded for its children."""

    engine: base.Engine | None = None
    task: Task | None = None

    @property
    def version(self) -> str:
        """Return the version of the task or engine, which determines the results."""
        if self.task is not None and self.task.version:
            return self.task.version
        return self.engine.version if self.engine else ""
