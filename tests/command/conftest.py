"""A server on loopback for commands that bring documents in."""

from __future__ import annotations

from tests.client.conftest import chosen, desk, recorder

__all__ = ["chosen", "desk", "recorder"]
