"""The plan of a run: duration, documents, locks, rates of faults, deliberately broken builds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from pagewarden import errors, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg


LANES = ("image", "pdf", "index", "acte", "check")
QUEUE_DEPTHS: Mapping[str, int] = MappingProxyType(
    {"image": 40, "pdf": 16, "index": 16, "acte": 16, "check": 16}
)
"""Documents of each lane that wait at a time: enough to keep all workers busy."""
SLOW_SHARE = 0.02
TARGETED_SLOW_SHARE = 0.3

WORKERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "worker-1": ("work", "--lanes", "check,image,pdf", "--processes", "2"),
        "worker-2": ("work", "--lanes", "pdf,image,index", "--processes", "2"),
        "worker-3": ("work", "--lanes", "acte,index,check", "--processes", "2"),
        "pool": ("work", "--lanes", "index,acte,check,image", "--processes", "4"),
    }
)
"""Workers beside those of the system itself."""

FAULTS: Mapping[str, float] = MappingProxyType(
    {
        "kill a worker": 6,
        "suspend a worker beyond its lock": 5,
        "kill the sandbox of a worker": 2,
        "kill the functions": 1.5,
        "suspend the functions": 0.5,
        "kill the GPU service": 0.7,
        "suspend the GPU service": 0.7,
        "kill the system with its scheduler": 0.3,
        "restart Postgres, fast": 0.5,
        "restart Postgres, immediate": 0.5,
        "stop Postgres beyond a lock": 0.2,
        "cut the connections of a process": 3,
        "cut all connections": 0.7,
        "cut listening connections": 1.5,
        "send a spurious notification": 4,
        "call a worker function": 4,
        "fill the disk": 0.7,
        "cancel a document": 2,
        "read a document again": 4,
        "resolve a dead letter": 3,
        "delete a document and restore it": 2,
        "pause a lane": 0.7,
        "recover a document that is not stuck": 3,
        "cancel a job": 1.5,
        "run a job again": 1.5,
    }
)
"""The injected faults and user actions, with their relative frequencies."""

TARGETED_FAULTS: Mapping[str, float] = MappingProxyType(
    {
        "suspend a worker beyond its lock": 5,
        "kill a worker": 1,
        "recover a document that is not stuck": 3,
    }
)
"""The faults for a broken build: those that fencing and heartbeats protect from."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run.

    `gap_seconds` is the mean time between two disturbances; `documents` the maximum number of
    uploads; `slow_pages` the length of slow documents, which take a second per page;
    `settle_seconds` the time after the faults within which all documents have to be done.
    """

    seed: int
    fire_seconds: float = 600.0
    quiet_seconds: float = 60.0
    documents: int = 20_000
    gap_seconds: float = 1.5
    settle_seconds: float = 900.0
    broken: str | None = None
    lock_seconds: float = settings.LOCK_SECONDS
    heartbeat_seconds: float = settings.HEARTBEAT_SECONDS
    sweep_seconds: float = settings.SWEEP_SECONDS
    gpu_silence_seconds: float = settings.GPU_SILENCE_SECONDS
    slow_pages: int = 40
    slow_share: float = SLOW_SHARE
    waiting: Mapping[str, int] = field(default_factory=lambda: QUEUE_DEPTHS)
    workers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: WORKERS)
    disturbances: Mapping[str, float] = field(default_factory=lambda: FAULTS)
    backoff_seconds: int = 30
    probe_seconds: int = 30

    def rng(self, purpose: str) -> random.Random:
        """Return a random generator for one purpose, so that purposes do not affect each other."""
        return random.Random(f"{self.seed} {purpose}")  # noqa: S311  # no secret

    @property
    def recovery_limit(self) -> float:
        """Return the p99 limit for another worker to claim a dead worker's document."""
        return self.lock_seconds + 10.0


# Builds without a safeguard -----------------------------------------------------------------------
# Deliberately broken builds, which the monitor has to detect: SQL functions of the run's database
# are replaced by ones without the safeguard.


_NEW = """v_token
        from taken as t;
        exit when v_ids is null;"""
_SAME = """v_token
        from taken as t;
        exit when v_ids is null;
        v_token := (
          select md5(d.id::text || d.reading)::uuid from public.documents as d where d.id = v_ids[1]
        );
        delete from private.claims as c where c.id = v_token;"""

BREAKS: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # A claim makes no new token, so the token of the previous worker is valid, too.
        "fencing": {"claim_documents": {_NEW: _SAME}},
        # Calls do not compare the token.
        "tokens": {
            "lock_refusal": {
                "when p_lock_token is not null and (p_document).lock_token is distinct from "
                "p_lock_token then 'LOCK_LOST'": ""
            },
            "complete": {"and d.lock_token is not distinct from i.token": ""},
            "extend_document_lock": {"d.lock_token = p_lock_token and ": ""},
            "release_documents": {
                "v_document.lock_token is distinct from v_item.lock_token or ": ""
            },
        },
        # Heartbeats change nothing.
        "heartbeat": {
            "extend_document_lock": {
                "greatest(d.locked_at, p_now)": "d.locked_at",
                "greatest(d.lock_expires_at, p_now + make_interval(secs => p_lock_timeout))": (
                    "d.lock_expires_at"
                ),
            }
        },
    }
)
"""For each broken build, the functions to change: text to remove, and its replacement."""

_DEFINITION = """
select pg_get_functiondef(p.oid) from pg_proc as p
where p.pronamespace in ('private'::regnamespace, 'public'::regnamespace) and p.proname = %s
"""


async def break_build(conn: psycopg.AsyncConnection[Any], name: str) -> None:
    """Replace the functions of a database by those of a broken build."""
    for function, changes in BREAKS[name].items():
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_DEFINITION, (function,))
            ((text,),) = await cursor.fetchall()
            await cursor.execute(replace_safeguards(text, changes, function).encode())


def replace_safeguards(text: str, changes: Mapping[str, str], function: str) -> str:
    """Replace parts of a function; each must be there once, or the build would not be broken."""
    for old, new in changes.items():
        if text.count(old) != 1:
            raise errors.LocalStackError(
                f"{function} no longer has {old!r}, so it cannot be broken there; "
                "update benchmarks.chaos.plan"
            )
        text = text.replace(old, new)
    return text
