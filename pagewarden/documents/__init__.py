"""Claim a document, read it, save its pages as they come, complete it: the same for every lane."""

from __future__ import annotations

from pagewarden.documents.attempts import Attempt, Outcome
from pagewarden.documents.claims import Claim, Page, Reader, Run
from pagewarden.documents.worker import Worker

__all__ = ["Attempt", "Claim", "Outcome", "Page", "Reader", "Run", "Worker"]
