"""What other computers do with a Pagewarden server: sign in, upload, ask, take the text."""

from __future__ import annotations

from pagewarden.client.answers import Accepted, Hit, Progress, Stage
from pagewarden.client.client import Client, Search, Wishes, connected, opened
from pagewarden.client.sessions import Session, Sessions

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
]
