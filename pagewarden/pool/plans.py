"""What a pool is to be: its lanes, its size, its machine. Settings that do not fit are refused."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.pool import allocation, capacity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.settings import Settings


@dataclass(frozen=True, slots=True)
class Plan:
    """Lanes with their weights in order, minimums, workers of the pool and of this program."""

    weights: Mapping[str, Fraction]
    minimums: Mapping[str, int]
    size: int
    count: int
    interval_seconds: float
    cpu: float
    megabytes: float
    warnings: Sequence[str] = field(default=())

    @property
    def lanes(self) -> list[str]:
        """Name the lanes, the first one first."""
        return list(self.weights)

    @property
    def lease_seconds(self) -> int:
        """Say how long a leader, or a worker, may be silent."""
        return max(2, round(2 * self.interval_seconds))

    @property
    def keep_seconds(self) -> float:
        """Say how long a worker stays in a lane at least."""
        return 0.9 * self.interval_seconds

    def allocate(self, backlog: Mapping[str, int], size: int) -> dict[str, int]:
        """Share so many workers; when there are fewer than planned, minimums give way."""
        minimums = self.minimums_of(size)
        lanes = [
            allocation.Lane(name, backlog.get(name, 0), minimums[name], weight)
            for name, weight in self.weights.items()
        ]
        return allocation.allocate(lanes, size)

    def minimums_of(self, size: int) -> dict[str, int]:
        """Give the minimums that so many workers can keep, lane by lane in order."""
        kept, left = {}, size
        for name in self.weights:
            kept[name] = min(self.minimums.get(name, 0), left)
            left -= kept[name]
        return kept


def make(settings: Settings, *, lanes: str | None = None, size: int | None = None) -> Plan:
    """Read the settings; what does not fit together is refused with the sum that shows it."""
    cpu = settings.server_max_cpu or os.cpu_count() or 1
    gigabytes = settings.server_max_ram or _gigabytes()
    weights = parse(lanes or settings.pool_lanes)
    chosen = size or settings.ocr_worker_pool_size or _default_size(cpu, len(weights))
    wanted = {"index": settings.ocr_min_index_workers, "acte": settings.ocr_min_acte_workers}
    minimums = {name: wanted[name] for name in weights if name in wanted}
    allocation.require_fitting(minimums, chosen)
    minimums |= _others(weights, minimums, chosen)
    count = settings.ocr_worker_count or chosen
    return Plan(
        weights,
        minimums,
        chosen,
        count,
        settings.ocr_rebalance_interval_ms / 1000,
        cpu,
        gigabytes * 1024,
        _warnings(count, cpu),
    )


def _others(
    weights: Mapping[str, Fraction], minimums: Mapping[str, int], size: int
) -> dict[str, int]:
    """Have somebody in every other lane too, as far as the pool goes: none is to starve."""
    left = size - sum(minimums.values())
    others = [name for name in weights if name not in minimums]
    return {name: int(number < left) for number, name in enumerate(others)}


def _default_size(cpu: float, lanes: int) -> int:
    """Take what suits the machine, but have somebody for every lane."""
    return max(capacity.recommended_size(cpu), lanes)


def _warnings(size: int, cpu: float) -> list[str]:
    recommended = capacity.recommended_size(cpu)
    if size <= recommended:
        return []
    return [
        (
            f"{size} workers are more than the {recommended} that suit {cpu:g} CPUs; "
            "some will wait for their turn"
        )
    ]


def parse(text: str) -> dict[str, Fraction]:
    """Read "index, acte, image=2": lanes in order, with the weight of a document."""
    found: dict[str, Fraction] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in capacity.COSTS:
            known = ", ".join(capacity.COSTS)
            raise errors.SettingsError(f"there is no lane {name!r}; lanes are {known}")
        try:
            found[name] = Fraction(weight or 1)
        except (ValueError, ZeroDivisionError) as exc:
            raise errors.SettingsError(f"{weight!r} is no weight; write image=2") from exc
        if found[name] <= 0:
            raise errors.SettingsError(f"the weight of lane {name} must be more than 0")
    if not found:
        raise errors.SettingsError("a pool serves at least one lane; name them, as in index,acte")
    return found


def _gigabytes() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
