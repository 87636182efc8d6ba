"""Structured logs on standard error: one line for each event, for people or as JSON.

Every line has the variables bound to the context (structlog.contextvars): document, lane, worker
and attempt, or request and user. Warnings of other libraries have the same form, exceptions are
fields, and secrets are removed.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from structlog import dev, processors, tracebacks
from structlog import stdlib as bridges

from pagewarden import errors
from pagewarden.telemetry import redaction

if TYPE_CHECKING:
    from types import TracebackType

    from structlog.typing import EventDict, Processor, WrappedLogger

FORMAT_SETTING = "PAGEWARDEN_LOG_FORMAT"
LEVEL_SETTING = "PAGEWARDEN_LOG_LEVEL"
FORMATS = ("console", "json")
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_ENV_FILE = Path(".env")
_FRAMES = 20


def configure() -> None:
    """Configure logging as the settings say, on the current standard error."""
    level = LEVELS[_read_setting(LEVEL_SETTING, tuple(LEVELS), "info")]
    last = _make_last_processors(as_json=get_output_format() == "json")
    structlog.configure(
        processors=[*_make_first_processors(), *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    _capture_library_warnings(level, last)
    sys.excepthook = _log_crash


def get_output_format() -> str:
    """Return the format that is set, by default console on a terminal and JSON elsewhere."""
    return _read_setting(FORMAT_SETTING, FORMATS, "console" if sys.stderr.isatty() else "json")


def _read_setting(name: str, allowed: tuple[str, ...], default: str) -> str:
    """Read one setting; importing all of them takes longer than most commands."""
    value = os.environ.get(name) or _read_env_file(name) or default
    if value not in allowed:
        raise errors.SettingsError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _read_env_file(name: str) -> str | None:
    if not _ENV_FILE.exists():
        return None
    from dotenv import dotenv_values  # noqa: PLC0415  # most installations have no .env

    return dotenv_values(_ENV_FILE).get(name)


def _make_first_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        processors.add_log_level,
        processors.StackInfoRenderer(),
        processors.TimeStamper(fmt="iso", utc=True),
    ]


def _make_last_processors(*, as_json: bool) -> list[Processor]:
    if as_json:
        # Local variables may contain the text of documents.
        transformer = tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES)
        return [processors.ExceptionRenderer(transformer), _redact, processors.JSONRenderer()]
    use_colors = sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR"))
    renderer = dev.ConsoleRenderer(
        colors=use_colors and not os.environ.get("NO_COLOR"),
        exception_formatter=dev.plain_traceback,
    )
    return [processors.format_exc_info, _redact, renderer]


def _redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    redacted: EventDict = {key: redaction.redact(event[key], name=key) for key in event}
    return redacted


def _capture_library_warnings(level: int, last: list[Processor]) -> None:
    """Write the warnings of libraries and of Python in the same form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        bridges.ProcessorFormatter(
            processors=[bridges.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=[*_make_first_processors(), bridges.add_logger_name],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)


def _log_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None, /
) -> None:
    """Log an unhandled exception."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    structlog.get_logger(__name__).critical("crashed", exc_info=(kind, error, trace))
