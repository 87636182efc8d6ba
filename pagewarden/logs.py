"""What programs say while they run: a line for each event on standard error.

For people in colours, for machines as JSON. Whatever is bound to the context is on every line (see
structlog.contextvars): document, lane, worker and attempt, or request and user. Warnings of other
libraries come in the same form, exceptions are fields, and secrets are taken out.
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

from pagewarden import errors, redaction

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
    """Write lines as the settings say, on the standard error that we have now."""
    level = LEVELS[_chosen(LEVEL_SETTING, tuple(LEVELS), "info")]
    last = _last_steps(in_json=chosen_format() == "json")
    structlog.configure(
        processors=[*_first_steps(), *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    _bring_in_others(level, last)
    sys.excepthook = _crashed


def chosen_format() -> str:
    """Tell how lines are written: as it is set, or as whoever reads standard error can use them."""
    return _chosen(FORMAT_SETTING, FORMATS, "console" if sys.stderr.isatty() else "json")


def _chosen(name: str, known: tuple[str, ...], default: str) -> str:
    """Read a setting without all the others, which take longer to import than most commands."""
    given = os.environ.get(name) or _in_file(name) or default
    if given not in known:
        raise errors.SettingsError(f"{name} must be one of {', '.join(known)}, not {given!r}")
    return given


def _in_file(name: str) -> str | None:
    if not _ENV_FILE.exists():
        return None
    from dotenv import dotenv_values  # noqa: PLC0415  # most have no such file

    return dotenv_values(_ENV_FILE).get(name)


def _first_steps() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        processors.add_log_level,
        processors.StackInfoRenderer(),
        processors.TimeStamper(fmt="iso", utc=True),
    ]


def _last_steps(*, in_json: bool) -> list[Processor]:
    if in_json:
        # Local variables may hold anything, a document's text included.
        shown = tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES)
        return [processors.ExceptionRenderer(shown), _hide, processors.JSONRenderer()]
    colourful = sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR"))
    renderer = dev.ConsoleRenderer(
        colors=colourful and not os.environ.get("NO_COLOR"), exception_formatter=dev.plain_traceback
    )
    return [processors.format_exc_info, _hide, renderer]


def _hide(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    hidden: EventDict = {key: redaction.redacted(event[key], name=key) for key in event}
    return hidden


def _bring_in_others(level: int, last: list[Processor]) -> None:
    """Have the warnings of libraries, and Python's own, written as our lines are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        bridges.ProcessorFormatter(
            processors=[bridges.ProcessorFormatter.remove_processors_meta, *last],
            foreign_pre_chain=[*_first_steps(), bridges.add_logger_name],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)


def _crashed(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None, /
) -> None:
    """Say why the program ends, in one line of the usual form."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    structlog.get_logger(__name__).critical("crashed", exc_info=(kind, error, trace))
