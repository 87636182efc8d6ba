"""The configuration of a pool: lanes, size, minimums, and the limits of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from pagewarden import errors
from pagewarden.pool import allocation, capacity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.settings import Settings


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Weights of the lanes in order, minimums, workers of the whole pool and of this program."""

    weights: Mapping[str, Fraction]
    minimums: Mapping[str, int]
    size: int
    local_size: int
    interval_seconds: float
    cpu: float
    megabytes: float
    warnings: Sequence[str] = field(default=())

    @classmethod
    def from_settings(
        cls, settings: Settings, *, lanes: str | None = None, size: int | None = None
    ) -> Self:
        """Build the plan; raise SettingsError if the settings are inconsistent."""
        cpu = settings.server_max_cpu or os.cpu_count() or 1
        gigabytes = settings.server_max_ram or _measure_installed_gigabytes()
        weights = parse_lanes(lanes or settings.pool_lanes)
        size = size or settings.ocr_worker_pool_size or _compute_default_size(cpu, len(weights))
        configured = {
            "index": settings.ocr_min_index_workers,
            "acte": settings.ocr_min_acte_workers,
        }
        minimums = {name: configured[name] for name in weights if name in configured}
        allocation.check_minimums(minimums, size)
        minimums |= _compute_default_minimums(weights, minimums, size)
        local_size = settings.ocr_worker_count or size
        return cls(
            weights,
            minimums,
            size,
            local_size,
            settings.ocr_rebalance_interval_ms / 1000,
            cpu,
            gigabytes * 1024,
            _list_warnings(local_size, cpu),
        )

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes, in order."""
        return list(self.weights)

    @property
    def lease_seconds(self) -> int:
        """How long a leader or a worker may be silent."""
        return max(2, round(2 * self.interval_seconds))

    @property
    def min_stay_seconds(self) -> float:
        """How long a worker keeps a lane at least."""
        return 0.9 * self.interval_seconds

    def allocate(self, backlog: Mapping[str, int], size: int) -> dict[str, int]:
        """Distribute this many workers; if there are fewer than planned, reduce the minimums."""
        minimums = self.get_minimums(size)
        lanes = [
            allocation.Lane(name, backlog.get(name, 0), minimums[name], weight)
            for name, weight in self.weights.items()
        ]
        return allocation.allocate(lanes, size)

    def get_minimums(self, size: int) -> dict[str, int]:
        """Return the minimums that this many workers can satisfy, lane by lane in order."""
        minimums, left = {}, size
        for name in self.weights:
            minimums[name] = min(self.minimums.get(name, 0), left)
            left -= minimums[name]
        return minimums


def parse_lanes(text: str) -> dict[str, Fraction]:
    """Parse "index, acte, image=2": lanes in order, with the weight of a document."""
    weights: dict[str, Fraction] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in capacity.COSTS:
            known = ", ".join(capacity.COSTS)
            raise errors.SettingsError(f"unknown lane {name!r}; choose from {known}")
        try:
            weights[name] = Fraction(weight or 1)
        except (ValueError, ZeroDivisionError) as exc:
            raise errors.SettingsError(
                f"{weight!r} is not a valid weight; expected a number, for example image=2"
            ) from exc
        if weights[name] <= 0:
            raise errors.SettingsError(f"the weight for lane {name} must be greater than 0")
    if not weights:
        raise errors.SettingsError("the pool needs at least one lane, such as index,acte")
    return weights


def _compute_default_minimums(
    weights: Mapping[str, Fraction], configured_minimums: Mapping[str, int], size: int
) -> dict[str, int]:
    """Return one worker for each other lane, as far as the size allows, so that none starves."""
    left = size - sum(configured_minimums.values())
    others = [name for name in weights if name not in configured_minimums]
    return {name: int(number < left) for number, name in enumerate(others)}


def _compute_default_size(cpu_count: float, lanes: int) -> int:
    return max(capacity.recommend_size(cpu_count), lanes)


def _list_warnings(size: int, cpu_count: float) -> list[str]:
    recommended = capacity.recommend_size(cpu_count)
    if size <= recommended:
        return []
    excess = f"{size} workers exceed the recommended {recommended} for {cpu_count:g} CPUs"
    return [f"{excess}; some will wait for capacity"]


def _measure_installed_gigabytes() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
