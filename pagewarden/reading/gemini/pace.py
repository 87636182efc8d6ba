"""Time as the engine sees it, and how often it may ask in it."""

from __future__ import annotations

import collections
import threading
import time
from datetime import UTC, datetime

from pagewarden import errors

WINDOW_SECONDS = 60.0
CLOSED = "Gemini was closed while a page was read; read the page again"


class Clock:
    """The time, and waits that end early when the program does."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def now(self) -> float:
        """Count seconds from some moment; never runs backwards."""
        return time.monotonic()

    def utc(self) -> datetime:
        """Tell the date and time of day."""
        return datetime.now(UTC)

    def wait(self, seconds: float) -> None:
        """Let seconds pass; raises EngineAway when stopped, so that the page is given back."""
        if self._stopped.wait(seconds):
            raise errors.EngineAway(CLOSED)

    def stop(self) -> None:
        """End every wait, now and later."""
        self._stopped.set()


class Limiter:
    """Let at most so many requests begin in any minute, whichever thread makes them."""

    def __init__(self, requests_per_minute: int, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._starts: collections.deque[float] = collections.deque(maxlen=requests_per_minute)
        self._held_until = 0.0

    def take(self, ends: float) -> None:
        """Wait for the turn of one request; raises RateLimited when that comes too late."""
        with self._lock:
            now = self._clock.now()
            start = max(now, self._held_until, self._room_at())
            if start >= ends:
                raise errors.RateLimited(
                    f"Gemini may be asked again in {start - now:.0f} s; try then, or raise "
                    "PAGEWARDEN_GEMINI_REQUESTS_PER_MINUTE if the key's quota allows more",
                    retry_after=start - now,
                )
            self._starts.append(start)
        self._clock.wait(start - now)

    def hold(self, seconds: float) -> None:
        """Let nobody begin for so long, as the service asked.

        At most for one window: somebody must find out when a longer wait is over.
        """
        with self._lock:
            until = self._clock.now() + min(seconds, WINDOW_SECONDS)
            self._held_until = max(self._held_until, until)

    def _room_at(self) -> float:
        if len(self._starts) < (self._starts.maxlen or 0):
            return 0.0
        return self._starts[0] + WINDOW_SECONDS
