"""Have a long-lived program looked at, as the settings say: its meters served, its traces sent."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import metrics_server, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.settings import Settings


@contextlib.contextmanager
def program(name: str, chosen: Settings) -> Iterator[None]:
    """Do both for as long as a program works; name is what it is among our programs."""
    with metrics_server.serving(chosen), tracing.sending(name, chosen.otlp_endpoint):
        yield
