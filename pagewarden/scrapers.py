"""Who may read what a process counts: programs of this machine, and whoever has a key."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import weak_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.settings import Settings

# With one of these, somebody behind a proxy asks, however near the proxy is.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Door:
    """Opens to any of the keys; to this machine as well, unless people come in through a proxy."""

    keys: tuple[str, ...] = field(repr=False)
    local: bool = True

    def admits(self, peer: str | None, headers: Mapping[str, str]) -> bool:
        """Tell whether this caller may; the names of its headers are in lower case."""
        return self._has_key(headers) or (self.local and _is_here(peer, headers))

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # All of them, in a time that says nothing about how much was right.
        sent = given.strip().encode(errors="replace")
        genuine = [hmac.compare_digest(sent, key.encode()) for key in self.keys]
        return scheme.lower() == "bearer" and any(genuine)


def door(chosen: Settings, secret_key: str | None) -> Door:
    """Make the door that the settings say."""
    token = chosen.metrics_token.get_secret_value() if chosen.metrics_token else None
    # Whoever named another address has a proxy in front, which may be on this machine.
    local = weak_secrets.is_this_machine(chosen.site_url)
    return Door(tuple(filter(None, (token, secret_key))), local=local)


def _is_here(peer: str | None, headers: Mapping[str, str]) -> bool:
    """Tell whether a program of this machine asks, and means this machine.

    A page of a browser may be made to ask, too; then the host is that of the page.
    """
    try:
        near = peer is not None and ipaddress.ip_address(peer).is_loopback
    except ValueError:
        near = False
    if not near or any(name in headers for name in _FORWARDED):
        return False
    return weak_secrets.is_this_machine(f"http://{headers.get('host', '')}")
