"""Measure, format and deliver alerts by e-mail, webhook and Slack."""

from __future__ import annotations

import asyncio
import email.message
import email.utils
import json
import shutil
import smtplib
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import httpx
import structlog

from pagewarden.notifications import webhooks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pagewarden.database import Database, rows
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 10
LEASE_SECONDS = 60
SEND_SECONDS = 15.0

_HEALTH_SECONDS = 5.0
_SUBJECT_PREFIXES = {"fired": "Alert", "resolved": "Resolved", "test": "Test"}


async def measure(settings: Settings) -> Mapping[str, float]:
    """Measure what the database cannot see: free disk space and the health of the GPU service."""
    measured = {}
    disk = _find_disk(settings)
    if disk is not None:
        usage = await asyncio.to_thread(shutil.disk_usage, disk)
        measured["free_disk_share"] = usage.free / usage.total
    if settings.gpu_service_url is not None:
        is_healthy = await _is_healthy(str(settings.gpu_service_url))
        measured["gpu_service_down"] = 0.0 if is_healthy else 1.0
    return measured


def _find_disk(settings: Settings) -> Path | None:
    """Return the folder with our files; None if files and database are on other systems."""
    is_remote = settings.files is not None and "://" in settings.files
    if is_remote and settings.database_url is not None:
        return None
    return settings.home if settings.home.exists() else None


async def _is_healthy(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=_HEALTH_SECONDS, trust_env=False) as client:
            response = await client.get(f"{url.rstrip('/')}/healthz")
    except httpx.HTTPError:
        return False
    return response.is_success


class ChannelNotConfigured(Exception):
    """The settings name no recipient for this channel."""


@dataclass(frozen=True, slots=True)
class AlertNotifier:
    """Delivers due notices; `secret` signs webhooks, None if there is no webhook secret."""

    database: Database
    settings: Settings
    secret: str | None

    async def send_due(self) -> int:
        """Try each due notice once; return how many were due."""
        due = await self.database.claim_alert_notices(limit=BATCH, lease_seconds=LEASE_SECONDS)
        await asyncio.gather(*(self._deliver(notice) for notice in due))
        return len(due)

    async def _deliver(self, notice: rows.ClaimedAlertNotice) -> None:
        error, is_set_up = None, True
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(notice)
        except ChannelNotConfigured:
            is_set_up = False
        except (httpx.HTTPError, httpx.InvalidURL, OSError, smtplib.SMTPException) as exc:
            error = f"{type(exc).__name__}: {exc}"
            log.warning("alert_delivery_failed", channel=notice["channel"], error=error)
        await self.database.settle_alert_notice(
            id=notice["id"], attempt=notice["attempt"], error=error, is_set_up=is_set_up
        )

    async def _send(self, notice: rows.ClaimedAlertNotice) -> None:
        match notice["channel"]:
            case "slack":
                await self._send_to_slack(notice["body"])
            case "webhook":
                await self._send_to_webhook(notice["id"], notice["body"])
            case _:
                await asyncio.to_thread(self._send_email, notice["id"], notice["body"])

    async def _send_to_slack(self, body: Mapping[str, Any]) -> None:
        url = self.settings.slack_webhook_url
        if url is None:
            raise ChannelNotConfigured
        message = f"*{format_subject(body)}*\n{format_text(body, self.settings.site_url)}"
        await _post(url.get_secret_value(), json.dumps({"text": message}).encode(), {})

    async def _send_to_webhook(self, notice_id: str, body: Mapping[str, Any]) -> None:
        url = self.settings.alert_webhook_url
        if url is None or self.secret is None:
            raise ChannelNotConfigured
        content = json.dumps(
            {"type": f"alert.{body['kind']}", "timestamp": body["at"], "data": body}
        ).encode()
        headers = webhooks.make_signature_headers(
            self.secret, notice_id, round(time.time()), content
        )
        await _post(url.get_secret_value(), content, headers)

    def _send_email(self, notice_id: str, body: Mapping[str, Any]) -> None:
        server, recipients = self.settings.smtp_url, self.settings.alert_email_to
        if server is None or not recipients:
            raise ChannelNotConfigured
        message = email.message.EmailMessage()
        sender = self.settings.alert_email_from
        message["From"], message["To"] = sender, recipients
        message["Subject"] = format_subject(body)
        message["Date"] = email.utils.localtime()
        message["Message-ID"] = f"<{notice_id}@pagewarden>"  # the same for every attempt
        message.set_content(format_text(body, self.settings.site_url))
        _send_message(server.get_secret_value(), message)


def format_subject(body: Mapping[str, Any]) -> str:
    """Return the subject line of an alert."""
    return f"{_SUBJECT_PREFIXES[body['kind']]}: {body['rule']} ({body['severity']})"


def format_text(body: Mapping[str, Any], site_url: str) -> str:
    """Return the text of an alert: what is wrong, since when, and what to do."""
    if body["kind"] == "test":
        lines = [
            (
                "This is a test. In a real alert, this line describes the problem; the next ones "
                "say what to do:"
            )
        ]
    else:
        lines = [_format_measurement(body)]
    if body["kind"] != "resolved":
        lines += [body["detail"] or "", body["advice"]]
    lines.append(f"{site_url}/alerts")
    return "\n".join(line for line in lines if line)


def _format_measurement(body: Mapping[str, Any]) -> str:
    value = format_amount(body["value"], body["unit"])
    limit = format_amount(body["threshold"], body["unit"])
    if body["kind"] == "resolved":
        worst = format_amount(body["worst"], body["unit"])
        return f"{body['description']}: resolved at {body['resolved_at']}; worst value {worst}."
    side = {">": "more", "<": "less"}[body["comparison"]]
    return f"{body['description']}: {value}, {side} than {limit}, since {body['broken_since']}."


def format_amount(value: float | None, unit: str) -> str:
    """Return a value with its unit."""
    if value is None:
        return "unknown"
    if unit == "share":
        return f"{value:.1%}"
    number = f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
    return f"{number} {unit.removesuffix('s') if value == 1 else unit}"


async def _post(url: str, content: bytes, headers: Mapping[str, str]) -> None:
    common = {"content-type": "application/json", "user-agent": "pagewarden"}
    async with httpx.AsyncClient(follow_redirects=False) as client:
        response = await client.post(url, content=content, headers={**common, **headers})
    if not response.is_success:
        # Not raise_for_status(): its message contains the URL, which is a secret.
        raise httpx.HTTPError(f"the receiver responded with status {response.status_code}")


def _send_message(url: str, message: email.message.EmailMessage) -> None:
    """Send a message through the server smtps://user:password@host:465 or smtp://host."""
    parts = urlsplit(url)
    host, context = parts.hostname or "localhost", ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            host, parts.port or 465, timeout=SEND_SECONDS, context=context
        )
    else:
        server = smtplib.SMTP(host, parts.port or 587, timeout=SEND_SECONDS)
    with server:
        server.ehlo()
        if parts.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=context)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
        server.send_message(message)
