"""How many workers each lane gets: a pure function of what waits.

Lane by lane a share is rounded down, of what the lanes before it have left, so that the last lane
with work takes the rest. Then minimums are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as the pool sees it: what waits, how few workers it may have, what a document weighs.

    A lane of weight 2 gets for each waiting document twice as much as one of weight 1.
    """

    name: str
    backlog: int
    minimum: int = 0
    weight: Fraction = Fraction(1)


def allocate(lanes: Sequence[Lane], size: int) -> dict[str, int]:
    """Share a pool of this size among the lanes; together they get all of it."""
    require_fitting({lane.name: lane.minimum for lane in lanes}, size)
    given: dict[str, int] = {}
    free, left = list(lanes), size
    while free:
        shares = _shares(free, left)
        short = [lane for lane in free if shares[lane.name] < lane.minimum]
        if not short:
            given |= shares
            break
        # Whoever is helped to the minimum is out of the sharing, which begins anew.
        for lane in short:
            given[lane.name] = lane.minimum
            left -= lane.minimum
        free = [lane for lane in free if lane not in short]
    return {lane.name: given[lane.name] for lane in lanes}


def _shares(lanes: Sequence[Lane], size: int) -> dict[str, int]:
    wanted = [lane.backlog * lane.weight for lane in lanes]
    if not any(wanted):
        wanted = [lane.weight for lane in lanes]
    shares, total = {}, sum(wanted)
    for lane, part in zip(lanes, wanted, strict=True):
        share = int(size * part / total) if total else 0
        shares[lane.name] = share
        size, total = size - share, total - part
    return shares


def require_fitting(minimums: Mapping[str, int], size: int) -> None:
    """Refuse a pool that is smaller than what its lanes need at least."""
    if size < 1:
        raise errors.SettingsError(f"a pool has at least one worker, not {size}")
    for name, minimum in minimums.items():
        if minimum < 0:
            raise errors.SettingsError(f"lane {name} cannot have at least {minimum} workers")
    needed = sum(minimums.values())
    if needed > size:
        sums = " + ".join(f"{name} {minimum}" for name, minimum in minimums.items() if minimum)
        raise errors.SettingsError(
            f"the minimums need {needed} workers ({sums}), the pool has {size}; "
            "make the pool larger or the minimums smaller"
        )
