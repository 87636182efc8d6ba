"""People are told of alerts: by e-mail and webhook of critical ones, on Slack of warnings."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import standardwebhooks
from pydantic import HttpUrl, SecretStr

from tests.database import queries
from tests.functions import house
from tests.functions.test_webhooks import Receiver
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden import database as gateways
    from pagewarden import settings as settings_module
    from tests.documents import readers
    from tests.support import databases


@dataclass(slots=True)
class Mailbox:
    """A server of e-mail that keeps what it is sent; busy makes it refuse so many times."""

    port: int = 0
    busy: int = 0
    messages: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak SMTP, as far as one message needs it."""
        writer.write(b"220 mail\r\n")
        while line := (await reader.readline()).decode().strip():
            word = line.split()[0].upper()
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                body = await reader.readuntil(b"\r\n.\r\n")
                self.messages.append(body.decode())
            if word == "MAIL" and self.busy:
                self.busy -= 1
                writer.write(b"451 busy\r\n")
            else:
                writer.write(b"221 bye\r\n" if word == "QUIT" else b"250 fine\r\n")
        writer.close()


@contextlib.asynccontextmanager
async def mailbox() -> AsyncIterator[Mailbox]:
    """Take e-mails on loopback."""
    box = Mailbox()
    server = await asyncio.start_server(box.serve, "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    async with server:
        yield box


@dataclass(frozen=True, slots=True)
class Post:
    """Whom alerts are told to."""

    functions: house.House
    slack: Receiver
    hook: Receiver
    box: Mailbox

    async def watch(self) -> dict[str, Any]:
        """Do what the schedule does every minute."""
        answer = await self.functions.serve("alerts")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def hurry(self) -> None:
        """Let what failed be due again."""
        await self.functions.factory.conn.execute(
            "update alert_notices set next_attempt_at = now()"
        )

    async def outcomes(self) -> list[tuple[str, str | None]]:
        """Say how each notice ended."""
        rows = await queries.rows(
            self.functions.factory.conn,
            "select channel, outcome from alert_notices order by channel",
        )
        return [(row["channel"], row["outcome"]) for row in rows]


@contextlib.asynccontextmanager
async def open_post(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> AsyncIterator[Post]:
    """Serve the functions, and everybody who is told."""
    slack, hook = Receiver(), Receiver()
    async with (
        serve_app(slack.app) as slack_url,
        serve_app(hook.app) as hook_url,
        mailbox() as box,
    ):
        said = {
            "slack_webhook_url": SecretStr(f"{slack_url}/done"),
            "alert_webhook_url": SecretStr(f"{hook_url}/done"),
            "alert_email_to": "ada@example.org, ben@example.org",
            "smtp_url": SecretStr(f"smtp://127.0.0.1:{box.port}"),
            "site_url": "https://papers.example.org",
        }
        async with house.opened(
            database, gateway, chosen.model_copy(update=said), recorder
        ) as functions:
            yield Post(functions, slack, hook, box)


@pytest.fixture
async def post(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> AsyncIterator[Post]:
    """Serve the functions, and everybody who is told."""
    async with open_post(database, gateway, chosen, recorder) as found:
        yield found


async def test_a_critical_alert_pages_by_email_and_signed_webhook(post: Post) -> None:
    """A lane that an outage paused, for long enough; and they are told when it is over."""
    conn = post.functions.factory.conn
    await conn.execute(
        "update lanes set paused_at = now(), pause_kind = 'outage', pause_reason = 'no answer', "
        "probe_at = now() where lane = 'pdf'"
    )
    assert (await post.watch())["told"] == 0
    await conn.execute(
        "update private.alert_states set broken_since = now() - interval '5 minutes' "
        "where rule = 'lane-paused-critical'"
    )

    rules = await queries.one(conn, "select count(*) as rules from alert_rules")
    assert await post.watch() == {"evaluated": rules["rules"], "open": 1, "told": 2}

    (mail,) = post.box.messages
    assert "Subject: Alert: lane-paused-critical (critical)" in mail
    assert "To: ada@example.org, ben@example.org" in mail
    assert "Lanes paused by an outage: 1 lane, more than 0 lanes" in mail
    assert "pdf: no answer" in mail
    assert "https://papers.example.org/alerts" in mail
    ((headers, body),) = post.hook.received
    standardwebhooks.Webhook(house.KEYS.webhook_secret or "").verify(body, headers)
    told = json.loads(body)
    assert (told["type"], told["data"]["rule"]) == ("alert.fired", "lane-paused-critical")
    assert post.slack.received == []
    assert (await post.watch())["told"] == 0

    await post.functions.factory.call("resume_lane", p_lane="pdf")
    await post.watch()
    await conn.execute(
        "update private.alert_states set calm_since = now() - interval '1 minute' "
        "where rule = 'lane-paused-critical'"
    )
    assert (await post.watch())["told"] == 2
    assert "Subject: Resolved: lane-paused-critical (critical)" in post.box.messages[1]


async def test_a_warning_goes_to_slack_which_may_be_away_for_a_while(post: Post) -> None:
    """An address that answers 500 is told again, until it has heard."""
    await post.functions.factory.call("test_alert", p_rule="slow-warning")
    post.slack.answers.extend([500, 429])
    for _ in range(3):
        await post.watch()
        await post.hurry()

    assert len(post.slack.received) == 3
    said = json.loads(post.slack.received[2][1])["text"]
    assert said.startswith("*Test: slow-warning (warning)*\nThis is a test.")
    assert await post.outcomes() == [("slack", "delivered")]


async def test_an_error_says_nothing_of_the_address_which_is_a_secret(post: Post) -> None:
    """Whoever has the address of a Slack channel can write to it."""
    await post.functions.factory.call("test_alert", p_rule="slow-warning")
    post.slack.answers.append(500)
    await post.watch()

    row = await queries.one(post.functions.factory.conn, "select error from alert_notices")
    assert row["error"] == "HTTPError: the receiver responded with status 500"


async def test_email_that_is_refused_is_tried_again(post: Post) -> None:
    """The webhook was told all the same, and is not told twice."""
    await post.functions.factory.call("test_alert", p_rule="disk-critical")
    post.box.busy = 1
    await post.watch()
    assert await post.outcomes() == [("email", None), ("webhook", "delivered")]
    await post.hurry()
    await post.watch()

    assert await post.outcomes() == [("email", "delivered"), ("webhook", "delivered")]
    assert len(post.box.messages) == len(post.hook.received) == 1


async def test_what_nobody_set_up_is_settled_at_once(functions: house.House) -> None:
    """Without addresses the task of HAC is all there is, and nothing piles up."""
    for rule in ("disk-critical", "slow-warning"):
        await functions.factory.call("test_alert", p_rule=rule)

    assert (await functions.serve("alerts")).json()["told"] == 3

    rows = await queries.rows(functions.factory.conn, "select outcome from alert_notices")
    assert [row["outcome"] for row in rows] == ["not set up"] * 3


async def test_disk_and_gpu_service_are_measured(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """A service that does not answer is down."""
    away = chosen.model_copy(update={"gpu_service_url": HttpUrl("http://127.0.0.1:9")})
    async with house.opened(database, gateway, away, recorder) as functions:
        (await functions.serve("alerts")).raise_for_status()
        rows = await queries.rows(
            functions.factory.conn, "select gauge, value from private.gauges order by gauge"
        )

    assert [row["gauge"] for row in rows] == ["free_disk_share", "gpu_service_down"]
    assert 0 < rows[0]["value"] < 1
    assert rows[1]["value"] == 1
