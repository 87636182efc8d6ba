"""Traffic for the simulation: rushes, bursts, a lane that could starve, and whole days."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pagewarden.bench.pool.simulation import Traffic

SECONDS_OF: Mapping[str, float] = {"index": 30.0, "acte": 20.0}
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Traffic with a name; in a rush, from its begin on, one lane has nearly all of the work."""

    name: str
    traffic: Traffic
    is_rush: bool = False
    begins: float = 0.0
    leaderless: Sequence[tuple[float, float]] = field(default=())


def scenarios(days: int = 5) -> Iterator[Scenario]:
    """Give all of them, always the same."""
    index_rush = _merged(_even(0, 900, index=10, acte=10), _even(600, 900, index=600, acte=10))
    acte_rush = _merged(_even(0, 900, index=10, acte=10), _even(600, 900, index=10, acte=900))
    yield Scenario("morning, index rush", index_rush, is_rush=True, begins=600)
    yield Scenario("afternoon, acte rush", acte_rush, is_rush=True, begins=600)
    dead = [(590.0, 720.0)]
    yield Scenario("index rush, leader dies", index_rush, is_rush=True, begins=600, leaderless=dead)
    bursts = [
        _even(n * 20 * MINUTE, n * 20 * MINUTE + 30, **{"index" if n % 2 else "acte": 150})
        for n in range(9)
    ]
    yield Scenario("bursts, now here, now there", _merged(*bursts))
    yield Scenario("index for ever, few actes", _even(0, 4 * HOUR, index=6500, acte=60))
    yield Scenario(f"{days} days", _merged(*(_day(n * DAY) for n in range(days))))


def _day(begin: float) -> Traffic:
    """Index documents in the morning, actes in the afternoon, little at night."""
    return _merged(
        _even(begin, begin + DAY, index=300, acte=300),
        _even(begin + 8 * HOUR, begin + 10 * HOUR, index=4000, acte=200),
        _even(begin + 14 * HOUR, begin + 17 * HOUR, index=200, acte=7000),
    )


def _even(begin: float, end: float, **counts: int) -> Traffic:
    """Let so many come at random times."""
    chance = random.Random(f"{begin} {end} {counts}")  # noqa: S311  # traffic, no secrets
    return sorted(
        (chance.uniform(begin, end), lane) for lane, count in counts.items() for _ in range(count)
    )


def _merged(*parts: Traffic) -> Traffic:
    return sorted(entry for part in parts for entry in part)
