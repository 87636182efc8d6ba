"""Spans cost nothing while tracing is off, and never block a program."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import uuid

import pytest
import structlog

from pagewarden import errors, telemetry
from pagewarden.telemetry import otlp as otlp_module
from pagewarden.telemetry import tracing
from tests.support import otlp

IMPORTED = """
import sys
from pagewarden.cli import work
from pagewarden.telemetry import tracing
with tracing.send_spans("worker", None), tracing.span("x", document="{document}"):
    tracing.set_attributes(pages=1)
    tracing.record_span("y", 0, document="{document}")
print([name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf"))])
"""
DOCUMENT = uuid.UUID("c0ffee00-1234-4abc-8def-0123456789ab")


def test_opentelemetry_is_not_imported_without_endpoint() -> None:
    """Neither by the worker nor by its spans."""
    program = IMPORTED.format(document=DOCUMENT)
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "[]"


def test_span_without_endpoint_is_a_shared_object() -> None:
    """No object is created for it."""
    assert tracing.span("a", document=str(DOCUMENT)) is tracing.span("b")


def test_endpoint_without_packages_is_a_settings_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message names the extra to install."""
    monkeypatch.delitem(sys.modules, "pagewarden.telemetry.otlp")
    monkeypatch.delattr(telemetry, "otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(errors.SettingsError, match=r"pagewarden\[tracing\]"),
        tracing.send_spans("worker", "http://127.0.0.1:4318"),
    ):
        pass


async def test_spans_nest_in_the_trace_of_their_document() -> None:
    """Tasks inherit the context; without a document there is no span."""
    about = {"document": str(DOCUMENT), "worker": "w"}
    with otlp.run_receiver() as received, tracing.send_spans("test", f"{received.url}/v1/traces/"):
        with tracing.span("about nothing"):
            pass
        with structlog.contextvars.bound_contextvars(**about), tracing.span("outer", pages=3):
            await asyncio.create_task(_inner())
    inner, outer = received.spans
    assert received.paths == {"/v1/traces"}
    assert (outer.name, inner.name, outer.service) == ("outer", "inner", "pagewarden-test")
    assert inner.parent == outer.id
    assert outer.parent == DOCUMENT.hex[:16]
    assert {outer.trace, inner.trace} == {DOCUMENT.hex}
    assert outer.attributes == {"document": str(DOCUMENT), "worker": "w", "pages": 3}
    assert inner.attributes["more"] is True


async def _inner() -> None:
    with tracing.span("inner"):
        tracing.set_attributes(more=True)


def test_span_error_has_no_secrets() -> None:
    """It has class and message, and the exception is raised."""
    with otlp.run_receiver() as received, tracing.send_spans("test", received.url):
        with (
            pytest.raises(OSError, match="hidden"),
            tracing.span("fetch", document=str(DOCUMENT)),
        ):
            raise OSError("https://ada:hidden@store.example is away")
        tracing.record_span(
            "upload", tracing.now(), is_root=True, document=str(DOCUMENT), token="hidden"
        )
    failed, root = received.spans
    assert failed.is_error
    assert failed.attributes["error.type"] == "OSError"
    assert failed.message == "https://ada:***@store.example is away"
    assert root.attributes["token"] == "***"
    assert (root.parent, root.id) == ("", failed.parent)


def test_unresponsive_receiver_does_not_block_the_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Remaining spans are dropped after a timeout; without it, this test would not end."""
    monkeypatch.setattr(otlp_module, "CLOSE_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with tracing.send_spans("test", f"http://127.0.0.1:{silent.getsockname()[1]}"):
            tracing.record_span("upload", tracing.now(), is_root=True, document=str(DOCUMENT))
