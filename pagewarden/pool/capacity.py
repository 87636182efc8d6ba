"""What a machine can carry: nobody begins a document for which there is no room."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST_WORKERS = 15
"""More than that in one pool has never paid."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one document of a lane takes while it is read."""

    cpu: float
    megabytes: int


COSTS: Mapping[str, Cost] = MappingProxyType(
    {
        "index": Cost(1.5, 750),
        "acte": Cost(1.0, 512),
        "image": Cost(1.0, 512),
        "pdf": Cost(1.0, 768),
        "check": Cost(1.0, 512),
    }
)


def recommended_size(cpu: float) -> int:
    """Say how many workers suit a machine: one for two cores, fifteen at most."""
    return max(1, min(MOST_WORKERS, int(cpu // 2)))


class Capacity:
    """The room of this machine, of which every document that is read takes its part."""

    def __init__(
        self,
        cpu: float,
        megabytes: float,
        *,
        costs: Mapping[str, Cost] = COSTS,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with a machine where nothing runs; freed is called whenever room becomes free."""
        self._cpu = cpu
        self._megabytes = megabytes
        self._costs = costs
        self._taken = 0
        self._freed = freed

    @contextlib.contextmanager
    def room_for(self, lane: str) -> Iterator[bool]:
        """Take room for a document of this lane, and say whether there was any."""
        cost = self._costs[lane]
        # Something always runs, however little there is: waiting would not make the machine larger.
        fits = not self._taken or (self._cpu >= cost.cpu and self._megabytes >= cost.megabytes)
        if not fits:
            yield False
            return
        self._take(cost, 1)
        try:
            yield True
        finally:
            self._take(cost, -1)
            self._freed()

    def _take(self, cost: Cost, times: int) -> None:
        self._taken += times
        self._cpu -= times * cost.cpu
        self._megabytes -= times * cost.megabytes
