"""How often somebody may get it wrong: by account and address together, and by each alone.

Together is what stops a guesser; alone are the limits for many addresses against one account
(wide, or strangers could lock its owner out) and for one address against many accounts.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.local.sign_in import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.local.sign_in.stores import Store

WINDOW = dt.timedelta(minutes=15)
PER_ACCOUNT_AND_ADDRESS = 10
PER_ADDRESS = 50
PER_ACCOUNT = 100
RECOVERIES_PER_ADDRESS = 20


@dataclass(frozen=True, slots=True)
class Count:
    """How often a subject failed, and when that is forgotten."""

    subject: str
    failures: int
    forgotten_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: what it is counted under, each with its limit; success clears the first one."""

    limits: Mapping[str, int]

    @classmethod
    def to_sign_in(cls, email: str, address: str) -> Attempt:
        """Count a password."""
        network = _network(address)
        return cls(
            {
                f"{email} from {network}": PER_ACCOUNT_AND_ADDRESS,
                f"from {network}": PER_ADDRESS,
                email: PER_ACCOUNT,
            }
        )

    @classmethod
    def to_recover(cls, address: str) -> Attempt:
        """Count a request for a recovery link."""
        return cls({f"recovery from {_network(address)}": RECOVERIES_PER_ADDRESS})


async def count(store: Store, attempt: Attempt, now: dt.datetime) -> None:
    """Count an attempt that is about to be made; refuse it when there were too many."""
    counts = await store.all(
        Count,
        statements.COUNT_ATTEMPT,
        {"subjects": list(attempt.limits), "now": now, "until": now + WINDOW},
    )
    over = [c.forgotten_at for c in counts if c.failures > attempt.limits[c.subject]]
    if over:
        seconds = math.ceil((max(over) - now).total_seconds())
        raise errors.SignInRefused(
            f"too many attempts; try again in {math.ceil(seconds / 60)} minutes",
            status=429,
            code="over_request_rate_limit",
            retry_after=seconds,
        )


async def uncount(store: Store, attempt: Attempt) -> None:
    """Take an attempt back that succeeded."""
    subjects = list(attempt.limits)
    await store.change(statements.UNCOUNT_ATTEMPT, {"subjects": subjects, "cleared": subjects[0]})


def _network(address: str) -> str:
    """Give what one person can call from: an address, of version 6 all that share a prefix."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.ipv4_mapped:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
