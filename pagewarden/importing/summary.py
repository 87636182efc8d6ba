"""What became of each file, and how that is told."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import bars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagewarden.importing import tree

RETRY_SECONDS = 30.0

_EXAMPLES = 5


class Kind(enum.Enum):
    """What became of a file."""

    NEW = enum.auto()
    THERE = enum.auto()
    PASSED = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a file as it was then; a failure is worth another try from retry_at on."""

    kind: Kind
    stamp: tree.Stamp | None = None
    why: str = ""
    retry_at: float = float("inf")


@dataclass(slots=True)
class Summary:
    """All files that were seen."""

    fates: dict[Path, Fate] = field(default_factory=dict)

    def count(self, kind: Kind) -> int:
        """Count the files that this became of."""
        return sum(fate.kind is kind for fate in self.fates.values())

    def is_dealt_with(self, found: tree.Found, now: float) -> bool:
        """Tell whether nothing is to be done about a file as it is now."""
        fate = self.fates.get(found.path)
        if fate is None or fate.stamp != found.stamp:
            return False
        return fate.kind is not Kind.FAILED or now < fate.retry_at

    def lines(self) -> Iterator[str]:
        """Tell it all, the failures last and with reasons."""
        new, there = self.count(Kind.NEW), self.count(Kind.THERE)
        yield f"{bars.count(new, 'file')} uploaded, {there:,} already there"
        passed = Counter(fate.why for fate in self.fates.values() if fate.kind is Kind.PASSED)
        for why, number in passed.most_common():
            yield f"left out: {number:,} {why}"
        failed = defaultdict(list)
        for path, fate in self.fates.items():
            if fate.kind is Kind.FAILED:
                failed[fate.why].append(path)
        if failed:
            yield "Not taken in; the same command again tries only these:"
        for why, paths in failed.items():
            yield f"  {why}"
            yield from (f"    {path}" for path in paths[:_EXAMPLES])
            if len(paths) > _EXAMPLES:
                yield f"    and {len(paths) - _EXAMPLES:,} more"
