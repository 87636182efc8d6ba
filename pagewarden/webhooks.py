"""Tell callers' servers that their documents have ended: signed, tried again, never to ourselves.

Messages follow the Standard Webhooks specification: the headers webhook-id, webhook-timestamp and
webhook-signature let the receiver check who sent a message, when, and whether it came before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import structlog

from pagewarden import signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

BATCH = 10
LEASE_SECONDS = 60
SEND_SECONDS = 15.0

_GONE = 410
_LONGEST_URL = 2000


class UndeliverableError(Exception):
    """Trying this address again would not help."""


def problem_of(url: str) -> str | None:
    """Say what is wrong with an address that somebody wants to be told at; None is nothing.

    Names are looked up when something is sent, and not before.
    """
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as exc:
        return f"it is no URL: {exc}"
    if found.scheme not in {"http", "https"} or not found.host or len(url) > _LONGEST_URL:
        return f"it must begin with https:// or http:// and have at most {_LONGEST_URL} characters"
    with contextlib.suppress(ValueError):
        if not is_public(found.host):
            return f"{found.host} is no public address"
    return None


def is_public(address: str) -> bool:
    """Tell whether an address is out in the open: not ours, not a neighbour's, not the cloud's."""
    found = ipaddress.ip_address(address)
    embedded = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return found.is_global and not found.is_multicast and (not embedded or embedded.is_global)


@dataclass(frozen=True, slots=True)
class Sender:
    """Delivers the webhooks that are due; allowed decides which addresses may be spoken to."""

    database: Database
    secret: str
    allowed: Callable[[str], bool] = is_public
    now: Callable[[], float] = time.time

    async def deliver_due(self) -> int:
        """Try once everything that is due now, and tell how many there were."""
        due = await self.database.rpc(
            "claim_webhooks", p_limit=BATCH, p_lease_seconds=LEASE_SECONDS
        )
        await asyncio.gather(*(self._deliver(webhook) for webhook in due))
        return len(due)

    async def _deliver(self, webhook: Mapping[str, Any]) -> None:
        error, final = None, False
        try:
            await self._send(webhook)
        except UndeliverableError as exc:
            error, final = str(exc), True
        except (httpx.HTTPError, OSError, TimeoutError) as exc:
            error = f"{type(exc).__name__}: {exc}"
        if error:
            log.warning("webhook_failed", webhook=webhook["id"], error=error, final=final)
        await self.database.rpc(
            "settle_webhook",
            p_id=webhook["id"],
            p_attempt=webhook["attempt"],
            p_error=error,
            p_final=final,
        )

    async def _send(self, webhook: Mapping[str, Any]) -> None:
        url = httpx.URL(webhook["url"])
        body = json.dumps(webhook["body"]).encode()
        timestamp = round(self.now())
        headers = {
            "content-type": "application/json",
            "host": url.netloc.decode(),
            "user-agent": "pagewarden",
            "webhook-id": webhook["id"],
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures.sign(self.secret, webhook["id"], timestamp, body),
        }
        # What was checked is what is connected to: a name could point elsewhere the next time.
        pinned = url.copy_with(host=await self._address(url))
        async with (
            asyncio.timeout(SEND_SECONDS),
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
