"""The lines that are logged meanwhile, with all that is bound to their context."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

import structlog
from structlog import testing

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """Have them, as they are written."""
    with testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as found:
        yield cast("list[dict[str, Any]]", found)
