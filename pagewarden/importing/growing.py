"""Files that somebody still writes to are left until they rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.importing import tree

_NS = 1_000_000_000


@dataclass(slots=True)
class Resting:
    """Knows since when each file has been as it is.

    A file rests when it was changed, or first seen as it is, at least so many seconds ago. The
    second counts where the clock of the disk is another one than ours.
    """

    seconds: float
    _seen: dict[Path, tuple[tree.Stamp, float]] = field(default_factory=dict)

    def rests(self, found: tree.Found, *, now: float, wall: float) -> bool:
        """Tell whether a file rests; now is of a clock that only goes on, wall the time of day."""
        if wall - found.stamp.mtime_ns / _NS >= self.seconds:
            self._seen.pop(found.path, None)
            return True
        stamp, since = self._seen.get(found.path, (None, now))
        if stamp != found.stamp:
            since = now
        self._seen[found.path] = (found.stamp, since)
        return now - since >= self.seconds
