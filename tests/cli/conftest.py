"""A server for commands to talk to, and tables that are never folded."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from tests.client.conftest import chosen, desk, recorder

__all__ = ["chosen", "desk", "recorder"]

WIDTH = 300


@pytest.fixture(autouse=True)
def _wide_consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every console that is there the same width, whatever the environment was meanwhile."""
    modules = [module for name, module in sys.modules.items() if name.startswith("pagewarden.")]
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Console):
                monkeypatch.setattr(value, "_width", WIDTH)
