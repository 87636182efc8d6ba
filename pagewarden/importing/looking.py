"""See what there is to send."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.importing import summary, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.importing import growing, journal


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the tree brings: files to send now, and whether others must rest first.

    seconds is how long it took.
    """

    ready: list[tree.Found]
    unfinished: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at a tree; what need not be sent is noted in the summary at once.

    again: what the journal knows is sent once more.
    """

    wanted: tree.Tree
    known: journal.Journal
    resting: growing.Resting
    told: summary.Summary
    again: bool = False
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def look(self) -> Look:
        """Go through the whole tree; this waits for the disk."""
        began, ready, unfinished = self.now(), [], False
        for item in self.wanted.walk():
            fate = self._fate(item)
            if fate is None:
                assert isinstance(item, tree.Found)  # noqa: S101  # for the type checker
                ready.append(item)
            else:
                self.told.fates[item.path] = fate
                unfinished |= fate.why == tree.Reason.UNFINISHED
        return Look(ready, unfinished, self.now() - began)

    def _fate(self, item: tree.Found | tree.Passed | tree.Unseen) -> summary.Fate | None:
        """Say what becomes of it; None if it is to be sent."""
        match item:
            case tree.Passed(reason=reason):
                return summary.Fate(summary.Kind.PASSED, why=reason)
            case tree.Unseen(why=why):
                return summary.Fate(summary.Kind.FAILED, why=f"cannot be looked at: {why}")
            case tree.Found() if self.told.is_dealt_with(item, self.now()):
                return self.told.fates[item.path]
            case tree.Found():
                return self._fate_of_file(item)

    def _fate_of_file(self, found: tree.Found) -> summary.Fate | None:
        if not self.again and self.known.has(found):
            return summary.Fate(summary.Kind.THERE, found.stamp)
        if not self.resting.rests(found, now=self.now(), wall=self.wall()):
            return summary.Fate(summary.Kind.PASSED, why=tree.Reason.UNFINISHED)
        try:
            is_wanted = self.wanted.is_of_wanted_type(found.path)
        except OSError as exc:
            why = f"cannot be read: {exc.strerror or exc}"
            retry_at = self.now() + summary.RETRY_SECONDS
            return summary.Fate(summary.Kind.FAILED, found.stamp, why, retry_at)
        if not is_wanted:
            return summary.Fate(summary.Kind.PASSED, found.stamp, tree.Reason.OTHER_TYPE)
        return None
