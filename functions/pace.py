"""How often one person may call: so many times a minute, and a few more at once."""

from __future__ import annotations

import collections
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Whoever was not heard of the longest is forgotten first, and has a full bucket again.
_MOST_PEOPLE = 10_000


@dataclass(slots=True)
class Pace:
    """A bucket for each person, which fills again in a minute; one for each process of ours."""

    now: Callable[[], float] = time.monotonic
    _buckets: collections.OrderedDict[str, tuple[float, float]] = field(
        default_factory=collections.OrderedDict
    )

    def take(self, person: str, per_minute: int) -> float:
        """Count a call; tells how many seconds to wait for the next, 0 when it may go on."""
        now = self.now()
        left, seen = self._buckets.pop(person, (float(per_minute), now))
        left = min(float(per_minute), left + (now - seen) * per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / per_minute
        self._buckets[person] = (left if wait else left - 1, now)
        while len(self._buckets) > _MOST_PEOPLE:
            self._buckets.popitem(last=False)
        return wait
