"""Capture log lines, including bound context."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

import structlog
from structlog import testing

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def capture_lines() -> Iterator[list[dict[str, Any]]]:
    """Yield a list to which log lines are appended."""
    with testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        yield cast("list[dict[str, Any]]", lines)
