"""A sleep that returns at once."""

from __future__ import annotations


class FakeSleep:
    """Records the requested seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Record a sleep."""
        self.seconds.append(seconds)
