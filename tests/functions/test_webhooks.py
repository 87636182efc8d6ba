"""Webhooks: each document's end is told once it has come, signed, and told again until heard."""

from __future__ import annotations

import datetime as dt
import json
from collections import deque
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import standardwebhooks
from fastapi import FastAPI, Request, Response

from pagewarden.database import tables
from pagewarden.notifications import webhooks
from tests.database import factories
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden import database as gateways
    from tests.support import databases

SECRET = "whsec_d2hhdCB0aGUgcmVjZWl2ZXIga25vd3M="


class Receiver:
    """Somebody's server: keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answers: deque[int] = deque()
        self.url = ""
        self.elsewhere = "/elsewhere"
        self.app = FastAPI()
        self.app.post("/done")(self._receive)

    async def _receive(self, request: Request) -> Response:
        self.received.append((dict(request.headers), await request.body()))
        status = self.answers.popleft() if self.answers else 200
        return Response(status_code=status, headers={"location": self.elsewhere})


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Serve a receiver on loopback."""
    found = Receiver()
    async with serve_app(found.app) as url:
        found.url = f"{url}/done"
        yield found


@pytest.fixture
async def factory(database: databases.Database) -> factories.Factory:
    """Make documents."""
    return await factories.Factory.of(database)


def sender(gateway: gateways.Database, **changes: Any) -> webhooks.WebhookSender:
    """Make a sender that may speak to loopback."""
    options = {"is_allowed": lambda _address: True, **changes}
    return webhooks.WebhookSender(gateway, SECRET, **options)


async def _requested(factory: factories.Factory, url: str) -> str:
    document = await factory.completed(await factory.case())
    answer = await factory.call("request_webhook", p_document_id=document, p_url=url)
    return str(answer["webhook_id"])


async def _row(gateway: gateways.Database, webhook: str) -> Any:
    (row,) = await gateway.select(tables.webhooks, where={"id": webhook})
    return row


async def _make_due(factory: factories.Factory) -> None:
    await factory.conn.execute("update webhooks set next_attempt_at = now()")


async def test_the_end_of_a_document_is_told_once_with_a_signature_that_holds(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """A receiver's library takes it; a second round sends nothing more."""
    webhook = await _requested(factory, receiver.url)
    assert [await sender(gateway).deliver_due() for _ in range(2)] == [1, 0]
    ((headers, body),) = receiver.received
    told = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert told["type"] == "document.completed"
    assert headers["webhook-id"] == webhook
    assert (await _row(gateway, webhook))["delivered"] is True


async def test_a_document_that_is_still_being_read_is_not_told_of(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """It is told when it has ended, by whoever looks next."""
    case = await factory.case()
    claim = await factory.claimed(case)
    await factory.call("request_webhook", p_document_id=claim.document_id, p_url=receiver.url)
    assert await sender(gateway).deliver_due() == 0
    await factory.call("cancel_document", p_document_id=claim.document_id)
    assert await sender(gateway).deliver_due() == 1
    assert json.loads(receiver.received[0][1])["data"]["ocr_status"] == "cancelled"


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_what_was_not_accepted_is_told_again_later(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver, status: int
) -> None:
    """A redirect is not followed: it could lead to a neighbour."""
    webhook = await _requested(factory, receiver.url)
    receiver.answers.append(status)
    assert [await sender(gateway).deliver_due() for _ in range(2)] == [1, 0]
    row = await _row(gateway, webhook)
    assert (row["settled_at"], row["attempts"]) == (None, 1)
    assert str(status) in row["error"]
    await _make_due(factory)
    await sender(gateway).deliver_due()
    assert len(receiver.received) == 2
    assert (await _row(gateway, webhook))["delivered"] is True


async def test_nobody_at_the_address_is_an_error_that_is_tried_again(
    gateway: gateways.Database, factory: factories.Factory
) -> None:
    """A server that is down may be up tomorrow; after about a day it is given up."""
    webhook = await _requested(factory, "http://127.0.0.1:9/done")
    hours = 0.0
    while (row := await _row(gateway, webhook))["delivered"] is None:
        due = dt.datetime.fromisoformat(row["next_attempt_at"])
        hours += max(0.0, (due - dt.datetime.now(dt.UTC)).total_seconds()) / 3600
        await _make_due(factory)
        await sender(gateway).deliver_due()
    assert row["delivered"] is False
    assert hours == pytest.approx(24, abs=4)
    assert "ConnectError" in row["error"]


async def test_an_address_that_is_gone_for_good_is_given_up_at_once(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """410 says so."""
    webhook = await _requested(factory, receiver.url)
    receiver.answers.append(410)
    await sender(gateway).deliver_due()
    assert (await _row(gateway, webhook))["delivered"] is False


async def test_a_private_address_is_never_spoken_to(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """The receiver on loopback hears nothing from a sender as it is in production."""
    webhook = await _requested(factory, receiver.url)
    await sender(gateway, is_allowed=webhooks.is_public_address).deliver_due()
    assert receiver.received == []
    row = await _row(gateway, webhook)
    assert row["delivered"] is False
    assert "not a public address" in row["error"]


async def test_an_attempt_that_lost_its_time_settles_nothing(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """Somebody else has taken the webhook meanwhile; the late answer does not count."""
    webhook = await _requested(factory, receiver.url)
    for _ in range(2):
        await _make_due(factory)
        await factory.call("claim_webhooks")
    late = await factory.call("settle_webhook", p_id=webhook, p_attempt=1)
    assert late is False
    assert (await _row(gateway, webhook))["settled_at"] is None


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://a..b/",
        f"http://{'a' * 64}.example/",
        "http://xn--a/",
        "http://example.org:99999/",
        "http://:80/",
    ],
)
async def test_an_address_that_is_none_is_given_up_and_holds_up_no_other(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver, url: str
) -> None:
    """People can ask the database itself for it, which knows less of addresses."""
    assert webhooks.find_callback_url_problem(url)
    webhook, other = [await _requested(factory, it) for it in (url, receiver.url)]
    assert await sender(gateway).deliver_due() == 2
    row = await _row(gateway, webhook)
    assert (row["delivered"], row["error"].partition(":")[0]) == (False, "not a valid URL")
    assert (await _row(gateway, other))["delivered"] is True


async def test_an_answer_that_makes_no_sense_is_told_again_later(
    gateway: gateways.Database, factory: factories.Factory, receiver: Receiver
) -> None:
    """Whatever the address says, it cannot keep others from being told."""
    webhook = await _requested(factory, receiver.url)
    receiver.answers.append(302)
    receiver.elsewhere = "http://xn--a/"
    assert await sender(gateway).deliver_due() == 1
    row = await _row(gateway, webhook)
    assert (row["settled_at"], row["attempts"]) == (None, 1)
    assert row["error"]


@pytest.mark.parametrize(
    "url",
    ["http://example.org/a b", "http://example.org/\u00a0", "https://example.org/" + "é" * 1000],
)
async def test_what_the_database_would_refuse_is_known_before(
    factory: factories.Factory, url: str
) -> None:
    """An upload must not be refused when it is a document already."""
    assert "no spaces, and not exceed" in (webhooks.find_callback_url_problem(url) or "")
    document = await factory.completed(await factory.case())
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        await factory.call("request_webhook", p_document_id=document, p_url=url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104  # an address to be refused
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2001:0:7f00:1::",
        "fec0::1",
        "3fff::1",
        "192.0.0.192",
        "168.63.129.16",
    ],
)
def test_addresses_of_the_house_are_no_public_addresses(address: str) -> None:
    """Loopback, private, link-local, shared, multicast, also wrapped into IPv6."""
    assert not webhooks.is_public_address(address)


@pytest.mark.parametrize(
    "address",
    ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"],
)
def test_addresses_out_in_the_open_are_public(address: str) -> None:
    """Of both families, and of one by way of the other."""
    assert webhooks.is_public_address(address)
