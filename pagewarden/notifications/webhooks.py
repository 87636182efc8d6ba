"""Check callback URLs, and sign and deliver webhooks.

Webhooks notify the servers of callers that a document or job has ended. They follow the Standard
Webhooks specification: receivers check the sender, the time and duplicates by the headers
webhook-id, webhook-timestamp and webhook-signature.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import ipaddress
import json
import re
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import structlog

from pagewarden import errors
from pagewarden.settings import secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

BATCH = 10
LEASE_SECONDS = 60
SEND_SECONDS = 15.0

_GONE = 410
_MAX_URL_BYTES = 2000
_WEB_URL = re.compile(r"https?://[^\s/?#]+\S*")  # as in the database
_MAX_PORT = 65535

_UNICAST = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Public according to some versions of Python; clouds serve credentials at one of them.
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)


class UndeliverableWebhook(Exception):
    """The URL can never be delivered to; a retry would not help."""


def find_callback_url_problem(url: str, *, allow_any_address: bool = False) -> str | None:
    """Return what is wrong with a callback URL, or None.

    `allow_any_address` allows private addresses. Host names are resolved only on delivery.
    """
    try:
        host = _parse(url).host
    except ValueError as exc:
        return str(exc)
    with contextlib.suppress(ValueError):
        if not allow_any_address and not is_public_address(host):
            return f"{host} is not a public address"
    return None


def check_callback_url(url: str, *, webhooks_enabled: bool, allow_any_address: bool) -> None:
    """Raise RequestRejected if a webhook to this URL could never be delivered."""
    if not webhooks_enabled:
        raise errors.RequestRejected(
            "NO_WEBHOOKS",
            "callback_url: webhooks are disabled on this server; set PAGEWARDEN_WEBHOOK_SECRET",
        )
    if problem := find_callback_url_problem(url, allow_any_address=allow_any_address):
        raise errors.RequestRejected("INVALID_REQUEST", f"callback_url: {problem}")


def _parse(url: str) -> httpx.URL:
    """Parse a URL; ValueError says why it is invalid."""
    if len(url.encode(errors="replace")) > _MAX_URL_BYTES or not _WEB_URL.fullmatch(url):
        raise ValueError(
            "must begin with https:// or http://, contain no spaces, and not exceed "
            f"{_MAX_URL_BYTES} bytes"
        )
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")  # as for the name lookup
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"not a valid URL: {exc}") from exc
    if not parsed.host or (parsed.port or 0) > _MAX_PORT:
        raise ValueError("not a valid URL: the host or port is invalid")
    return parsed


def is_any_address(address: str) -> bool:
    """Accept every IP address; for PAGEWARDEN_WEBHOOKS_ANYWHERE."""
    ipaddress.ip_address(address)
    return True


def is_public_address(address: str) -> bool:
    """Return whether an IP address is public, and not one that clouds use internally."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        if embedded := _extract_ipv4(parsed):
            return is_public_address(str(embedded))
        if parsed not in _UNICAST:
            return False
    is_special = parsed.is_multicast or any(parsed in network for network in _SPECIAL)
    return parsed.is_global and not is_special


def _extract_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, if any."""
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Delivers due webhooks; `is_allowed` decides which IP addresses may be called."""

    database: Database
    secret: str
    is_allowed: Callable[[str], bool] = is_public_address
    now: Callable[[], float] = time.time

    async def deliver_due(self) -> int:
        """Try each due webhook once; return how many were due."""
        due = await self.database.claim_webhooks(limit=BATCH, lease_seconds=LEASE_SECONDS)
        await asyncio.gather(*(self._deliver(webhook) for webhook in due))
        return len(due)

    async def _deliver(self, webhook: rows.ClaimedWebhook) -> None:
        error, final = None, False
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(webhook)
        except UndeliverableWebhook as exc:
            error, final = str(exc), True
        except (httpx.HTTPError, OSError, ValueError) as exc:  # the response may be malformed
            error = f"{type(exc).__name__}: {exc}"
        if error:
            log.warning("webhook_delivery_failed", webhook=webhook["id"], error=error, final=final)
        await self.database.settle_webhook(
            id=webhook["id"], attempt=webhook["attempt"], error=error, final=final
        )

    async def _send(self, webhook: rows.ClaimedWebhook) -> None:
        try:
            url = _parse(webhook["url"])
        except ValueError as exc:
            raise UndeliverableWebhook(str(exc)) from exc
        body = json.dumps(webhook["body"]).encode()
        headers = {
            "content-type": "application/json",
            "host": url.netloc.decode(),
            "user-agent": "pagewarden",
            **make_signature_headers(self.secret, webhook["id"], round(self.now()), body),
        }
        # Connect to the address that was checked: the name could resolve to another one next time.
        pinned = url.copy_with(host=await self._resolve(url))
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
            _check_status(response.status_code)

    async def _resolve(self, url: httpx.URL) -> str:
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        entries = await asyncio.get_running_loop().getaddrinfo(
            url.host, port, type=socket.SOCK_STREAM
        )
        addresses = [str(entry[4][0]) for entry in entries]
        for address in addresses:
            if not self.is_allowed(address):
                raise UndeliverableWebhook(
                    f"{url.host} resolves to {address}, which is not a public address"
                )
        return addresses[0]


def _check_status(status: int) -> None:
    if status == _GONE:
        raise UndeliverableWebhook("the receiver no longer exists (410)")
    if not httpx.codes.is_success(status):
        raise httpx.HTTPError(f"the receiver responded with status {status}")


def make_signature_headers(
    secret: str, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers that identify a message and its sender."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header webhook-signature of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(secrets.decode_webhook_secret(secret), signed, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()
