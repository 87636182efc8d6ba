"""Sleep that takes no time."""

from __future__ import annotations


class Naps:
    """A sleep that only notes how long it should have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Note how long somebody wanted to sleep."""
        self.seconds.append(seconds)
