"""CPUs and memory of a machine: a worker reserves its share before it claims a document."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

MAX_RECOMMENDED_WORKERS = 15
"""Larger pools were not faster in any measurement."""


@dataclass(frozen=True, slots=True)
class ResourceCost:
    """What reading one document of a lane takes."""

    cpu: float
    megabytes: int


NO_COST = ResourceCost(0.0, 0)

COSTS: Mapping[str, ResourceCost] = MappingProxyType(
    {
        "index": ResourceCost(1.5, 750),
        "acte": ResourceCost(1.0, 512),
        "image": ResourceCost(1.0, 512),
        "pdf": ResourceCost(1.0, 768),
        "check": ResourceCost(1.0, 512),
    }
)


def recommend_size(cpu_count: float) -> int:
    """Return how many workers suit a machine: one for two cores, at most fifteen."""
    return max(1, min(MAX_RECOMMENDED_WORKERS, int(cpu_count // 2)))


class Capacity:
    """The free CPUs and memory of this machine, initially all of them."""

    def __init__(
        self,
        cpu: float,
        megabytes: float,
        *,
        costs: Mapping[str, ResourceCost] = COSTS,
        on_release: Callable[[], None] = lambda: None,
    ) -> None:
        """Call on_release whenever capacity becomes free."""
        self._cpu = cpu
        self._megabytes = megabytes
        self._costs = costs
        self._reservations = 0
        self.on_release = on_release

    @contextlib.contextmanager
    def reserve(self, lanes: Sequence[str], urgent: Collection[str] = ()) -> Iterator[Reservation]:
        """Reserve capacity for one document of those lanes for which there is enough.

        While no urgent lane fits, nothing is reserved: it would never get enough otherwise.
        """
        fitting = [lane for lane in lanes if self._has_capacity_for(self._costs[lane])]
        if urgent and not any(lane in urgent for lane in fitting):
            fitting = []
        reservation = Reservation(fitting, self)
        self.change(reservation.cost, 1)
        try:
            yield reservation
        finally:
            self.change(reservation.cost, -1)
            # After a claim that found nothing, on_release would wake the same workers forever.
            if reservation.is_confirmed:
                self.on_release()

    def change(self, cost: ResourceCost, sign: int) -> None:
        """Reserve a cost (1), or release it (-1)."""
        self._reservations += sign * (cost != NO_COST)
        self._cpu -= sign * cost.cpu
        self._megabytes -= sign * cost.megabytes

    def max_cost(self, lanes: Sequence[str]) -> ResourceCost:
        """Return what a document of any of these lanes takes at most."""
        costs = [self._costs[lane] for lane in lanes]
        return ResourceCost(max(cost.cpu for cost in costs), max(cost.megabytes for cost in costs))

    def _has_capacity_for(self, cost: ResourceCost) -> bool:
        # One document always fits: on a machine that is too small for it, waiting does not help.
        return not self._reservations or (
            self._cpu >= cost.cpu and self._megabytes >= cost.megabytes
        )


class Reservation:
    """Capacity for one document of any of these lanes; without lanes there was not enough."""

    def __init__(self, lanes: Sequence[str], capacity: Capacity) -> None:
        self.lanes = lanes
        self.is_confirmed = False
        self.cost = capacity.max_cost(lanes) if lanes else NO_COST
        self._capacity = capacity

    def confirm(self, lane: str) -> None:
        """Reduce the reservation to what a document of this lane needs."""
        self._capacity.change(self.cost, -1)
        self.cost = self._capacity.max_cost([lane])
        self._capacity.change(self.cost, 1)
        self.is_confirmed = True
        self._capacity.on_release()
