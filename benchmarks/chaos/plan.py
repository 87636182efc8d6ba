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
WAITING: Mapping[str, int] = MappingProxyType(
    {"image": 40, "pdf": 16, "index": 16, "acte": 16, "check": 16}
)
"""How many documents of each lane are there to be read at a time: enough that nobody idles."""
SLOW_SHARE = 0.02
AIMED_SLOW_SHARE = 0.3

WORKERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "worker-1": ("work", "--lanes", "check,image,pdf", "--processes", "2"),
        "worker-2": ("work", "--lanes", "pdf,image,index", "--processes", "2"),
        "worker-3": ("work", "--lanes", "acte,index,check", "--processes", "2"),
        "pool": ("pool", "run", "--lanes", "index,acte,check,image", "--size", "4"),
    }
)
"""Programs that read beside the worker and the functions of the system itself."""

DISTURBANCES: Mapping[str, float] = MappingProxyType(
    {
        "kill a worker": 6,
        "stop a worker beyond its lock": 5,
        "kill the sandbox of a worker": 2,
        "kill the functions": 1.5,
        "stop the functions": 0.5,
        "kill the GPU service": 0.7,
        "hang the GPU service": 0.7,
        "kill the scheduler with its system": 0.3,
        "restart Postgres, fast": 0.5,
        "restart Postgres, immediate": 0.5,
        "keep Postgres away beyond a lock": 0.2,
        "cut the connections of a process": 3,
        "cut all connections": 0.7,
        "cut those who listen": 1.5,
        "ring for nothing": 4,
        "call a worker function": 4,
        "fill the disk": 0.7,
        "cancel a document": 2,
        "have a document read again": 4,
        "decide about a dead letter": 3,
        "delete a document and restore it": 2,
        "pause a lane": 0.7,
        "take a document for stuck": 3,
        "cancel a job": 1.5,
        "run a job again": 1.5,
    }
)
"""What is done, and how often compared with the others."""

AIMED: Mapping[str, float] = MappingProxyType(
    {"stop a worker beyond its lock": 5, "kill a worker": 1, "take a document for stuck": 3}
)
"""The same for a build that is broken: what fencing and heartbeats are there for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run; seconds are as named, gap_seconds is the mean between two disturbances.

    At most so many documents are brought in. slow_pages is how many pages those documents have
    that take a second for each, and settle_seconds how long everything may take to come to rest.
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
    waiting: Mapping[str, int] = field(default_factory=lambda: WAITING)
    workers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: WORKERS)
    disturbances: Mapping[str, float] = field(default_factory=lambda: DISTURBANCES)
    backoff_seconds: int = 30
    probe_seconds: int = 30

    def chance(self, of_what: str) -> random.Random:
        """Have chance of one's own, which others do not use up; the same for each seed."""
        return random.Random(f"{self.seed} {of_what}")  # noqa: S311  # no secret

    @property
    def recovery_limit(self) -> float:
        """Seconds within which a dead worker's document has to be in other hands, nearly always."""
        return self.lock_seconds + 10.0


# Builds without a safeguard -----------------------------------------------------------------------
# Builds that are broken on purpose, to see that the referee would notice.
#
# Functions of the run's own database are replaced by ones without the safeguard.


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
        # A claim makes no new token, so that of the worker before fits as well.
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
"""By name: which functions of the queue lose what, and what stands there instead."""

_DEFINITION = """
select pg_get_functiondef(p.oid) from pg_proc as p
where p.pronamespace in ('private'::regnamespace, 'public'::regnamespace) and p.proname = %s
"""


async def break_build(conn: psycopg.AsyncConnection[Any], name: str) -> None:
    """Break the build in a database, in the way of that name."""
    for function, changes in BREAKS[name].items():
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_DEFINITION, (function,))
            ((text,),) = await cursor.fetchall()
            await cursor.execute(without(text, changes, function).encode())


def without(text: str, changes: Mapping[str, str], function: str) -> str:
    """Replace what is to be broken, which must be there: a sound build must not pass for broken."""
    for old, new in changes.items():
        if text.count(old) != 1:
            raise errors.LocalStackError(
                f"{function} no longer has {old!r}, so it cannot be broken there; "
                "mend benchmarks.chaos.plan"
            )
        text = text.replace(old, new)
    return text
