"""Limits on failed logins and recovery requests: per account and address, and for each alone.

The limit per account and address stops a guesser. The limits for one account from all addresses,
and for one address at all accounts, stop distributed guessing. The limit per account is high, or
strangers could lock out the owner of the account.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.auth.embedded.store import COUNT_ATTEMPT, FORGET_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.auth.embedded.store import AuthDatabase

WINDOW = dt.timedelta(minutes=15)
MAX_FAILURES_PER_ACCOUNT_AND_ADDRESS = 10
MAX_FAILURES_PER_ADDRESS = 50
MAX_FAILURES_PER_ACCOUNT = 100
MAX_RECOVERIES_PER_ADDRESS = 20


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login or recovery request: its subjects, each with its limit; success resets the first."""

    limits: Mapping[str, int]

    @classmethod
    def for_sign_in(cls, email: str, address: str) -> LoginAttempt:
        """Return the attempt to sign in with a password."""
        network = _to_network(address)
        return cls(
            {
                f"{email} from {network}": MAX_FAILURES_PER_ACCOUNT_AND_ADDRESS,
                f"from {network}": MAX_FAILURES_PER_ADDRESS,
                email: MAX_FAILURES_PER_ACCOUNT,
            }
        )

    @classmethod
    def for_recovery(cls, address: str) -> LoginAttempt:
        """Return the request for a recovery link."""
        return cls({f"recovery from {_to_network(address)}": MAX_RECOVERIES_PER_ADDRESS})


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """How often a subject failed, and when that is forgotten."""

    subject: str
    failures: int
    forgotten_at: dt.datetime


async def count_attempt(store: AuthDatabase, attempt: LoginAttempt, now: dt.datetime) -> None:
    """Count an attempt before it is made; raise SignInRejected (429) if a limit is exceeded."""
    counts = await store.fetch_all(
        AttemptCount,
        COUNT_ATTEMPT,
        {"subjects": list(attempt.limits), "now": now, "until": now + WINDOW},
    )
    exceeded = [c.forgotten_at for c in counts if c.failures > attempt.limits[c.subject]]
    if exceeded:
        seconds = math.ceil((max(exceeded) - now).total_seconds())
        raise errors.SignInRejected(
            f"too many attempts; try again in {math.ceil(seconds / 60)} minutes",
            status=429,
            code="over_request_rate_limit",
            retry_after=seconds,
        )


async def uncount_attempt(store: AuthDatabase, attempt: LoginAttempt) -> None:
    """Undo the count of an attempt that succeeded."""
    subjects = list(attempt.limits)
    await store.change(FORGET_ATTEMPT, {"subjects": subjects, "cleared": subjects[0]})


def _to_network(address: str) -> str:
    """Return the addresses that one person can use: one address of IPv4, a /64 prefix of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.ipv4_mapped:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
