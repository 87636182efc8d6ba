"""What other computers do with a Pagewarden server: sign in, upload, ask, take the text."""

from __future__ import annotations

from pagewarden.client.auth import Session, Sessions
from pagewarden.client.client import (
    Client,
    Search,
    Wishes,
    connected,
    opened,
    translated,
    until_ended,
)
from pagewarden.client.http import Accepted, Hit, Progress, Stage

__all__ = [
    "Accepted",
    "Client",
    "Hit",
    "Progress",
    "Search",
    "Session",
    "Sessions",
    "Stage",
    "Wishes",
    "connected",
    "opened",
    "translated",
    "until_ended",
]
