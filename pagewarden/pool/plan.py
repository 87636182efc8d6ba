"""The configuration of a pool: lanes, size, minimums, and the limits of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from pagewarden import errors
from pagewarden.pool import allocation, capacity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pagewarden.settings import Settings

MAX_LEASE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Weights of the lanes in order, minimums, workers of the whole pool and of this program."""

    weights: Mapping[str, Fraction]
    minimums: Mapping[str, int]
    size: int
    local_size: int
    interval_seconds: float
    limit: capacity.ResourceCost
    warnings: Sequence[str] = field(default=())
    usage_folder: Path | None = None

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        lanes: str | None = None,
        size: int | None = None,
        cpu: float | None = None,
    ) -> Self:
        """Build the plan; raise SettingsError if the settings are inconsistent."""
        cpu = cpu or settings.server_max_cpu or capacity.count_cpus()
        gigabytes = settings.server_max_ram
        megabytes = gigabytes * 1024 if gigabytes else capacity.measure_megabytes()
        weights = parse_lanes(lanes or settings.pool_lanes)
        recommended = capacity.recommend_size(cpu, megabytes)
        size = size or settings.ocr_worker_pool_size or settings.ocr_worker_count or recommended
        local_size = settings.ocr_worker_count or size
        configured = {
            "index": settings.ocr_min_index_workers,
            "acte": settings.ocr_min_acte_workers,
        }
        minimums = {name: configured[name] for name in weights if name in configured}
        # The default minimums give way in a small pool: its lanes take turns.
        if settings.model_fields_set & {"ocr_min_index_workers", "ocr_min_acte_workers"}:
            allocation.check_minimums(minimums, size)
        return cls(
            weights,
            minimums,
            size,
            local_size,
            settings.ocr_rebalance_interval_ms / 1000,
            capacity.ResourceCost(cpu, megabytes),
            _list_warnings(local_size, recommended, f"{cpu:g} CPUs and {megabytes:,.0f} MB"),
            settings.pool_folder,
        )

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes, in order."""
        return list(self.weights)

    @property
    def processes(self) -> int:
        """How many OCR processes the workers of this program share."""
        return min(self.local_size, capacity.recommend_size(self.limit.cpu, self.limit.megabytes))

    @property
    def lease_seconds(self) -> int:
        """How long a leader or a worker may be silent."""
        return max(2, min(round(2 * self.interval_seconds), MAX_LEASE_SECONDS))

    @property
    def min_stay_seconds(self) -> float:
        """How long a worker keeps a lane at least."""
        return 0.9 * self.interval_seconds

    def allocate(self, backlog: Mapping[str, int], size: int) -> dict[str, int]:
        """Distribute this many workers to the lanes of the backlog."""
        minimums = self.get_minimums(backlog, size)
        lanes = [
            allocation.Lane(
                name, backlog[name], minimums[name], self.weights.get(name, Fraction(1))
            )
            for name in self.sort_lanes(backlog)
        ]
        return allocation.allocate(lanes, size)

    def get_minimums(self, backlog: Mapping[str, int], size: int) -> dict[str, int]:
        """Return how many workers each lane gets at least, as far as this many workers suffice.

        The configured minimums apply while one of their lanes has work. Any other lane gets a
        worker while it has work.
        """
        is_active = any(backlog.get(name) for name in self.minimums)
        configured = [name for name in self.sort_lanes(backlog) if name in self.minimums]
        others = [name for name in backlog if name not in self.minimums]
        minimums, left = {}, size
        for name in [*configured, *others]:
            wanted = (
                self.minimums[name] * is_active if name in configured else int(backlog[name] > 0)
            )
            minimums[name] = min(wanted, left)
            left -= minimums[name]
        return minimums

    def sort_lanes(self, lanes: Collection[str]) -> list[str]:
        """Sort lanes in the order of the plan, and then those that are not in it."""
        known = [name for name in self.weights if name in lanes]
        return [*known, *sorted(set(lanes).difference(known))]


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


def _list_warnings(size: int, recommended: int, machine: str) -> list[str]:
    if size <= recommended:
        return []
    found = f"{machine} suffice for {recommended} of {size} workers"
    return [f"{found}; the others will wait for capacity"]
