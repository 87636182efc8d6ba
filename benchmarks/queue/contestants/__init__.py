"""The contestants, imported on first use: most installations do not have the peers."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from benchmarks.queue.contestants import base


OURS = "pagewarden"

#: Name of a contestant: its module.
_MODULES = {
    OURS: "benchmarks.queue.contestants.pagewarden",
    "supabase": "benchmarks.queue.contestants.supabase",
    "pgmq": "benchmarks.queue.contestants.pgmq",
    "pgmq-delete": "benchmarks.queue.contestants.pgmq",
    "procrastinate": "benchmarks.queue.contestants.procrastinate",
    "pgqueuer": "benchmarks.queue.contestants.pgqueuer",
    "absurd": "benchmarks.queue.contestants.absurd",
    "dbos": "benchmarks.queue.contestants.dbos",
}

NAMES = tuple(_MODULES)

_PACKAGES = (
    "absurd_sdk",
    "absurdctl",
    "asyncpg",
    "dbos",
    "pgmq",
    "pgqueuer",
    "procrastinate",
    "uvloop",
)


def require_packages() -> None:
    """Raise SettingsError if a peer is not installed: a comparison needs all of them."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise errors.SettingsError(
            f"not installed: {', '.join(missing)}; install with pip install pagewarden[bench]"
        )


def list_modules() -> list[str]:
    """List the modules of all contestants, to preload them."""
    return sorted(set(_MODULES.values()))


def get(name: str) -> base.Contestant:
    """Return the contestant of this name."""
    contestant: base.Contestant = importlib.import_module(_MODULES[name]).CONTESTANTS[name]
    return contestant
