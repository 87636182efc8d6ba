"""Tell callers' servers that their documents have ended: signed, tried again, never to ourselves.

Messages follow the Standard Webhooks specification: the headers webhook-id, webhook-timestamp and
webhook-signature let the receiver check who sent a message, when, and whether it came before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import structlog

from pagewarden import signatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

BATCH = 10
LEASE_SECONDS = 60
SEND_SECONDS = 15.0

_GONE = 410
_LONGEST_URL = 2000
_WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+\S*")  # as the database has it
_MAX_PORT = 65535

_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Not for everybody either, which not every Python knows; in some of them clouds tell secrets.
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)


class UndeliverableError(Exception):
    """Trying this address again would not help."""


def problem_of(url: str, *, anywhere: bool = False) -> str | None:
    """Say what is wrong with an address that somebody wants to be told at; None is nothing.

    Names are looked up when something is sent, and not before. anywhere: private addresses, too.
    """
    try:
        host = _parse(url).host
    except ValueError as exc:
        return str(exc)
    with contextlib.suppress(ValueError):
        if not anywhere and not is_public(host):
            return f"{host} is no public address"
    return None


def _parse(url: str) -> httpx.URL:
    """Take an address apart; a ValueError says why that cannot be done."""
    if len(url.encode(errors="replace")) > _LONGEST_URL or not _WEB_ADDRESS.fullmatch(url):
        raise ValueError(
            "it must begin with https:// or http://, have no spaces and at most "
            f"{_LONGEST_URL} bytes"
        )
    try:
        found = httpx.URL(url)
        found.host.encode("idna")  # as it will be looked up
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"it is no URL: {exc}") from exc
    if not found.host or (found.port or 0) > _MAX_PORT:
        raise ValueError("it is no URL: there is no such host or port")
    return found


def is_any(address: str) -> bool:
    """Let every address pass, where nobody is to be protected from whoever names it."""
    ipaddress.ip_address(address)
    return True


def is_public(address: str) -> bool:
    """Tell whether an address is out in the open: not ours, not a neighbour's, not the cloud's."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        if embedded := _embedded(found):
            return is_public(str(embedded))
        if found not in _UNICAST:
            return False
    special = found.is_multicast or any(found in network for network in _SPECIAL)
    return found.is_global and not special


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Find the address of the old kind that one of the new kind leads to."""
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


@dataclass(frozen=True, slots=True)
class Sender:
    """Delivers the webhooks that are due; allowed decides which addresses may be spoken to."""

    database: Database
    secret: str
    allowed: Callable[[str], bool] = is_public
    now: Callable[[], float] = time.time

    async def deliver_due(self) -> int:
        """Try once everything that is due now, and tell how many there were."""
        due = await self.database.claim_webhooks(limit=BATCH, lease_seconds=LEASE_SECONDS)
        await asyncio.gather(*(self._deliver(webhook) for webhook in due))
        return len(due)

    async def _deliver(self, webhook: rows.ClaimedWebhook) -> None:
        error, final = None, False
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(webhook)
        except UndeliverableError as exc:
            error, final = str(exc), True
        except (httpx.HTTPError, OSError, ValueError) as exc:  # what it answers may be anything
            error = f"{type(exc).__name__}: {exc}"
        if error:
            log.warning("webhook_failed", webhook=webhook["id"], error=error, final=final)
        await self.database.settle_webhook(
            id=webhook["id"], attempt=webhook["attempt"], error=error, final=final
        )

    async def _send(self, webhook: rows.ClaimedWebhook) -> None:
        try:
            url = _parse(webhook["url"])
        except ValueError as exc:
            raise UndeliverableError(str(exc)) from exc
        body = json.dumps(webhook["body"]).encode()
        headers = {
            "content-type": "application/json",
            "host": url.netloc.decode(),
            "user-agent": "pagewarden",
            **signatures.headers(self.secret, webhook["id"], round(self.now()), body),
        }
        # What was checked is what is connected to: a name could point elsewhere the next time.
        pinned = url.copy_with(host=await self._address(url))
        async with (
            httpx.AsyncClient(follow_redirects=False, trust_env=False) as client,
            client.stream(
                "POST",
                pinned,
                content=body,
                headers=headers,
                extensions={"sni_hostname": url.host},
            ) as response,
        ):
            _require_accepted(response.status_code)

    async def _address(self, url: httpx.URL) -> str:
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        found = await asyncio.get_running_loop().getaddrinfo(
            url.host, port, type=socket.SOCK_STREAM
        )
        addresses = [str(entry[4][0]) for entry in found]
        for address in addresses:
            if not self.allowed(address):
                raise UndeliverableError(f"{url.host} is at {address}, which is no public address")
        return addresses[0]


def _require_accepted(status: int) -> None:
    if status == _GONE:
        raise UndeliverableError("the address says it is gone for good (410)")
    if not httpx.codes.is_success(status):
        raise httpx.HTTPError(f"the address answered {status}")
