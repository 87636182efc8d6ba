"""A desk for tests with a database, as those of documents have it."""

from __future__ import annotations

from tests.documents.conftest import desk

__all__ = ["desk"]
