"""Tell people of alerts: each notice by its channel, again and again until it is taken."""

from __future__ import annotations

import asyncio
import email.message
import email.utils
import json
import smtplib
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import httpx
import structlog

from pagewarden import signatures
from pagewarden.alerts import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.database import Database, rows
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 10
LEASE_SECONDS = 60
SEND_SECONDS = 15.0


class NotSetUpError(Exception):
    """There is nobody to tell by this channel."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Delivers the notices that are due; secret signs webhooks, where there is one."""

    database: Database
    settings: Settings
    secret: str | None

    async def tell_due(self) -> int:
        """Try once everything that is due now, and tell how many there were."""
        due = await self.database.claim_alert_notices(limit=BATCH, lease_seconds=LEASE_SECONDS)
        await asyncio.gather(*(self._tell(notice) for notice in due))
        return len(due)

    async def _tell(self, notice: rows.ClaimedAlertNotice) -> None:
        error, is_set_up = None, True
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(notice)
        except NotSetUpError:
            is_set_up = False
        except (httpx.HTTPError, httpx.InvalidURL, OSError, smtplib.SMTPException) as exc:
            error = f"{type(exc).__name__}: {exc}"
            log.warning("alert_not_told", channel=notice["channel"], error=error)
        await self.database.settle_alert_notice(
            id=notice["id"], attempt=notice["attempt"], error=error, is_set_up=is_set_up
        )

    async def _send(self, notice: rows.ClaimedAlertNotice) -> None:
        match notice["channel"]:
            case "slack":
                await self._to_slack(notice["body"])
            case "webhook":
                await self._to_webhook(notice["id"], notice["body"])
            case _:
                await asyncio.to_thread(self._by_email, notice["id"], notice["body"])

    async def _to_slack(self, body: Mapping[str, Any]) -> None:
        address = self.settings.slack_webhook_url
        if address is None:
            raise NotSetUpError
        said = f"*{words.subject(body)}*\n{words.text(body, self.settings.site_url)}"
        await _post(address.get_secret_value(), json.dumps({"text": said}).encode(), {})

    async def _to_webhook(self, notice_id: str, body: Mapping[str, Any]) -> None:
        address = self.settings.alert_webhook_url
        if address is None or self.secret is None:
            raise NotSetUpError
        content = json.dumps(
            {"type": f"alert.{body['kind']}", "timestamp": body["at"], "data": body}
        ).encode()
        headers = signatures.headers(self.secret, notice_id, round(time.time()), content)
        await _post(address.get_secret_value(), content, headers)

    def _by_email(self, notice_id: str, body: Mapping[str, Any]) -> None:
        server, people = self.settings.smtp_url, self.settings.alert_email_to
        if server is None or not people:
            raise NotSetUpError
        message = email.message.EmailMessage()
        sender = self.settings.alert_email_from
        message["From"], message["To"] = sender, people
        message["Subject"] = words.subject(body)
        message["Date"] = email.utils.localtime()
        message["Message-ID"] = f"<{notice_id}@pagewarden>"  # the same each time it is tried
        message.set_content(words.text(body, self.settings.site_url))
        _mail(server.get_secret_value(), message)


async def _post(url: str, content: bytes, headers: Mapping[str, str]) -> None:
    own = {"content-type": "application/json", "user-agent": "pagewarden"}
    async with httpx.AsyncClient(follow_redirects=False) as client:
        response = await client.post(url, content=content, headers={**own, **headers})
    if not response.is_success:
        # Not raise_for_status: its message has the address, which is a secret.
        raise httpx.HTTPError(f"it answered {response.status_code}")


def _mail(url: str, message: email.message.EmailMessage) -> None:
    """Send a message by the server of a URL: smtps://user:password@host:465, or smtp://host."""
    parts = urlsplit(url)
    host, trusted = parts.hostname or "localhost", ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            host, parts.port or 465, timeout=SEND_SECONDS, context=trusted
        )
    else:
        server = smtplib.SMTP(host, parts.port or 587, timeout=SEND_SECONDS)
    with server:
        server.ehlo()
        if parts.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=trusted)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
        server.send_message(message)
