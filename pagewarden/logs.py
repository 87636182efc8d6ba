"""What programs say while they run: to standard error, in colour where somebody looks."""

from __future__ import annotations

import sys

import structlog


def configure() -> None:
    """Have structlog write to standard error."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
