"""What to say of an act on many: how many were done, and what was skipped and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response

from dashboard import notices

_TOLD = 8

NOTHING_CHOSEN = "Nothing was done: choose at least one first."


def count(number: int, word: str) -> str:
    """Write a number of things: 1 task, 5,000 tasks."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def after(path: str, done: int, said: str, skipped: Sequence[Mapping[str, Any]]) -> Response:
    """Lead to a page that says it; said is of what was done, if anything was."""
    words = [said if done else "Nothing was done."]
    if skipped:
        told = [_reason(each) for each in skipped[:_TOLD]]
        told += [f"and {len(skipped) - _TOLD:,} more"] if len(skipped) > _TOLD else []
        words.append(f"Skipped {len(skipped):,}: {'; '.join(told)}.")
    return notices.after(path, " ".join(words), bad=bool(skipped) or not done)


def _reason(skipped: Mapping[str, Any]) -> str:
    name = skipped.get("name") or skipped.get("dlq_id") or skipped.get("document_id")
    return f"{name} ({skipped.get('message')})"
