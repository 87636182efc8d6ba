"""Builds that are broken on purpose, to see that the referee would notice.

Functions of the run's own database are replaced by ones without the safeguard.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

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


async def apply(conn: psycopg.AsyncConnection[Any], name: str) -> None:
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
                "mend pagewarden.bench.chaos.breaking"
            )
        text = text.replace(old, new)
    return text
