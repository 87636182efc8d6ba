"""What a machine can carry: nobody begins a document for which there is no room."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

MOST_WORKERS = 15
"""More than that in one pool has never paid."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one document of a lane takes while it is read."""

    cpu: float
    megabytes: int


NOTHING = Cost(0.0, 0)

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
        self.freed = freed

    @contextlib.contextmanager
    def for_one_of(self, lanes: Sequence[str], urgent: Collection[str] = ()) -> Iterator[Place]:
        """Take room for a document of whichever of these lanes fit, until it is known of which.

        While an urgent lane does not fit, nobody else gets room: it would never have enough.
        """
        fitting = [lane for lane in lanes if self._fits(self._costs[lane])]
        if urgent and not any(lane in urgent for lane in fitting):
            fitting = []
        place = Place(fitting, self)
        self.change(place.cost, 1)
        try:
            yield place
        finally:
            self.change(place.cost, -1)
            if place.is_settled:
                self.freed()

    def _fits(self, cost: Cost) -> bool:
        # Something always runs, however little there is: waiting would not make the machine larger.
        return not self._taken or (self._cpu >= cost.cpu and self._megabytes >= cost.megabytes)

    def change(self, cost: Cost, times: int) -> None:
        """Take this room, or give it back."""
        self._taken += times * (cost != NOTHING)
        self._cpu -= times * cost.cpu
        self._megabytes -= times * cost.megabytes

    def dearest(self, lanes: Sequence[str]) -> Cost:
        """Give what a document of any of these lanes takes at most."""
        costs = [self._costs[lane] for lane in lanes]
        return Cost(max(cost.cpu for cost in costs), max(cost.megabytes for cost in costs))


class Place:
    """Room that is taken: for one document of one of these lanes; none of them, no room."""

    def __init__(self, lanes: Sequence[str], room: Capacity) -> None:
        self.lanes = lanes
        self.is_settled = False
        self.cost = room.dearest(lanes) if lanes else NOTHING
        self._room = room

    def settle(self, lane: str) -> None:
        """Keep no more than this lane needs."""
        self._room.change(self.cost, -1)
        self.cost = self._room.dearest([lane])
        self._room.change(self.cost, 1)
        self.is_settled = True
        self._room.freed()
