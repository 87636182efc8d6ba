"""Addresses that callers want to be told at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions import answers
from pagewarden import webhooks

if TYPE_CHECKING:
    from functions import services


def problem_of(url: str, used: services.Services) -> str | None:
    """Say why an address could never be told; None is nothing."""
    if used.keys.webhook_secret is None:
        return "no webhooks are sent here: PAGEWARDEN_WEBHOOK_SECRET is not set"
    return webhooks.problem_of(url, anywhere=used.settings.webhooks_anywhere)


def require(url: str | None, used: services.Services) -> None:
    """Refuse an address that could never be told, before anything is stored."""
    problem = problem_of(url, used) if url is not None else None
    if problem:
        code = "INVALID_REQUEST" if used.keys.webhook_secret else "NO_WEBHOOKS"
        raise answers.RefusedError(400, code, f"callback_url: {problem}")
