"""The contestants, loaded only when they are asked for: most people never install the peers."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from benchmarks.queue.contestants import base


OURS = "pagewarden"

#: Contestant, the module that drives it.
_MODULES = {
    OURS: "benchmarks.queue.contestants.pagewarden",
    "pgmq": "benchmarks.queue.contestants.pgmq",
    "pgmq-delete": "benchmarks.queue.contestants.pgmq",
    "procrastinate": "benchmarks.queue.contestants.procrastinate",
    "pgqueuer": "benchmarks.queue.contestants.pgqueuer",
}

NAMES = tuple(_MODULES)

_PACKAGES = ("asyncpg", "pgmq", "pgqueuer", "procrastinate", "uvloop")


def require() -> None:
    """Refuse to start when a peer is not installed: a contest without it would prove nothing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise errors.SettingsError(
            f"not installed: {', '.join(missing)}; install with pip install pagewarden[bench]"
        )


def modules() -> list[str]:
    """List the modules of all contestants, for whoever wants to load them beforehand."""
    return sorted(set(_MODULES.values()))


def get(name: str) -> base.Contestant:
    """Load the contestant of that name."""
    found: base.Contestant = importlib.import_module(_MODULES[name]).CONTESTANTS[name]
    return found
