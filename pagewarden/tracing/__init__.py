"""Traces: what became of a document, from upload to text, in every process that had it.

    with tracing.span("fetch"):
        …

A trace is a document, and its id is the document's own. So spans of any process and any attempt
belong together, and nothing has to be passed along. Which document it is, and who is at it, is in
the context that the lines of logs have too (structlog.contextvars), or is said.

Off, unless sending() was told where to; then nothing is imported, and a span costs a call.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

now = time.time_ns
"""Nanoseconds, as spans are timed."""


class Sender(Protocol):
    """Whatever takes spans."""

    def span(
        self, name: str, document: uuid.UUID, about: Mapping[str, object]
    ) -> contextlib.AbstractContextManager[object]:
        """Time what is done inside; what is raised there is its error."""
        ...

    def past(
        self,
        name: str,
        document: uuid.UUID,
        about: Mapping[str, object],
        began: int,
        *,
        is_root: bool,
    ) -> None:
        """Take what has just ended."""
        ...

    def note(self, about: Mapping[str, object]) -> None:
        """Say more of the span that is open."""
        ...

    def close(self) -> None:
        """Send what is left, in a moment or not at all."""
        ...


@dataclass(slots=True)
class _State:
    sender: Sender | None = None


class _Nothing:
    """A span that nobody wants."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_state = _State()
_NOTHING = _Nothing()


def span(name: str, **about: object) -> contextlib.AbstractContextManager[object]:
    """Time what is done inside, as a part of the document's trace."""
    if _state.sender is None:
        return _NOTHING
    said = structlog.contextvars.get_contextvars() | about
    document = _document(said)
    return _NOTHING if document is None else _state.sender.span(name, document, said)


def past(name: str, began: int, *, is_root: bool = False, **about: object) -> None:
    """Note what has just ended and began then; for what is known of a document only afterwards.

    The root, of which there is one in a trace, is how the document came in.
    """
    if _state.sender is None:
        return
    said = structlog.contextvars.get_contextvars() | about
    document = _document(said)
    if document is not None:
        _state.sender.past(name, document, said, began, is_root=is_root)


def note(**about: object) -> None:
    """Say more of the span that is open."""
    if _state.sender is not None:
        _state.sender.note(about)


@contextlib.contextmanager
def sending(program: str, endpoint: object | None) -> Iterator[None]:
    """Send spans meanwhile, if there is an address to send them to."""
    if endpoint is None:
        yield
        return
    try:
        from pagewarden.tracing import otlp  # noqa: PLC0415  # only who sends has it
    except ModuleNotFoundError as exc:
        raise errors.SettingsError(
            f"PAGEWARDEN_OTLP_ENDPOINT is set, and {exc.name} is not installed; install "
            "pagewarden[tracing], or do not set it"
        ) from exc
    _state.sender = otlp.Sender(program, str(endpoint))
    try:
        yield
    finally:
        sender, _state.sender = _state.sender, None
        sender.close()


def _document(said: Mapping[str, Any]) -> uuid.UUID | None:
    try:
        return uuid.UUID(str(said.get("document")))
    except ValueError:
        return None
