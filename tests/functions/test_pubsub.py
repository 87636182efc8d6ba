"""Pushes of Pub/Sub: acknowledged when the outcome is recorded, and not before."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import uuid
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from pydantic import HttpUrl

from pagewarden import errors
from pagewarden.functions import pubsub
from tests.functions import house, test_jobs
from tests.functions.test_jobs import PNG, Sayer, checker, sayer, shown, submitted
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from pagewarden import database as gateways
    from pagewarden import settings as settings_module
    from tests.support import databases

__all__ = ["checker", "sayer"]

AUDIENCE = "https://papers.example.org/pubsub/push"
ACCOUNT = "pusher@project.iam.gserviceaccount.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def envelope(data: object) -> dict[str, Any]:
    """Wrap data as Pub/Sub does."""
    encoded = base64.b64encode(json.dumps(data).encode()).decode()
    return {"message": {"data": encoded, "messageId": "1"}, "subscription": "projects/p/s/x"}


async def push(functions: house.House, body: object, **headers: str) -> httpx.Response:
    """Push to where checkers have always been pushed to."""
    key = headers or {"apikey": house.KEYS.secret_key}
    return await functions.session.post("/pubsub/push", json=body, headers=key)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": {}},
        {"message": {"data": "%%%"}},
        {"message": {"data": "aGVsbG8="}},
        envelope({"job": "x"}),
        envelope({"job_id": "no id"}),
        envelope([1]),
        [],
    ],
)
async def test_an_invalid_push_is_a_bad_request(checker: house.House, body: object) -> None:
    """Pub/Sub delivers it again, in vain, until its own limit; nothing is read."""
    assert (await push(checker, body)).status_code == 400


async def test_a_push_is_acknowledged_when_its_job_has_ended(
    checker: house.House, sayer: Sayer
) -> None:
    """By then the results are there; pushed again, nothing is read again."""
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG, "b.png": test_jobs.OTHER})

    assert (await push(checker, envelope({"job_id": job}))).status_code == 204

    assert (await shown(checker, user, job))["status"] == "SUCCEEDED"
    assert (await push(checker, envelope({"jobId": job}))).status_code == 204
    assert sorted(sayer.asked) == ["a.png", "b.png"]


async def test_a_push_of_a_job_that_failed_is_acknowledged(
    checker: house.House, sayer: Sayer
) -> None:
    """The failure is recorded, and trying again is up to whoever submitted it."""
    user = await checker.factory.user()
    sayer.texts["a.png"] = errors.DamagedFile("damaged")
    job = await submitted(checker, user, {"a.png": PNG})

    assert (await push(checker, envelope({"job_id": job}))).status_code == 204

    assert (await shown(checker, user, job))["status"] == "FAILED"


async def test_a_push_of_an_unknown_job_is_acknowledged(checker: house.House) -> None:
    """Delivering it again would change nothing."""
    assert (await push(checker, envelope({"job_id": str(uuid.uuid4())}))).status_code == 204


async def test_two_pushes_of_one_job_at_once_read_each_picture_once(
    checker: house.House, sayer: Sayer
) -> None:
    """One reads, the other waits for the outcome; both are acknowledged."""
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG})
    sayer.opened.clear()
    pushes = [asyncio.create_task(push(checker, envelope({"job_id": job}))) for _ in range(2)]
    await polling.wait_until(lambda: bool(sayer.asked))
    sayer.opened.set()

    answers = await asyncio.gather(*pushes)

    assert [answer.status_code for answer in answers] == [204, 204]
    assert sayer.asked == ["a.png"]
    assert (await shown(checker, user, job))["checked"] == 1


async def test_a_push_whose_time_is_up_is_delivered_again(
    checker: house.House, sayer: Sayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the outcome is there it is not acknowledged."""
    monkeypatch.setattr(pubsub, "BUDGET_SECONDS", 0.0)
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG})
    await checker.factory.call("pause_lane", p_lane="check", p_reason="for the test")

    answer = await push(checker, envelope({"job_id": job}))

    assert (answer.status_code, answer.json()["error"]) == (503, "NOT_DONE_YET")
    assert sayer.asked == []


async def test_a_database_that_goes_away_before_the_result_is_saved_costs_nothing(
    checker: house.House, sayer: Sayer
) -> None:
    """What was read is kept until it can be saved: one outcome, never two, never none."""
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG})
    sayer.opened.clear()
    pushed = asyncio.create_task(push(checker, envelope({"job_id": job})))
    await polling.wait_until(lambda: bool(sayer.asked))
    async with checker.database.refuse_connections():
        sayer.opened.set()
        await asyncio.sleep(0)
        away = await push(checker, envelope({"job_id": job}))
        assert away.status_code == 503
    answer = await pushed
    while answer.status_code != 204:
        answer = await push(checker, envelope({"job_id": job}))

    found = await shown(checker, user, job)
    assert (found["status"], found["checked"]) == ("SUCCEEDED", 1)
    async with checker.database.acting_as("service_role") as conn:
        rows = await (await conn.execute("select count(*) from ocr_processing_logs")).fetchone()
    assert rows == (1,)


async def test_only_services_push_where_no_account_is_set(checker: house.House) -> None:
    """A person's token opens nothing here."""
    user = await checker.factory.user()
    body = envelope({"job_id": str(uuid.uuid4())})

    nobody = await checker.session.post("/pubsub/push", json=body)
    person = await push(checker, body, Authorization=f"Bearer {house.token(user)}")

    assert (nobody.status_code, person.status_code) == (401, 403)


@pytest.fixture
async def keys_url() -> AsyncIterator[str]:
    """Publish the key that Google would sign with."""
    app = FastAPI()
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))

    @app.get("/certs")
    def certs() -> dict[str, Any]:
        return {"keys": [public | {"kid": "k1", "alg": "RS256", "use": "sig"}]}

    async with serve_app(app) as url:
        yield f"{url}/certs"


def signed(**changes: object) -> str:
    """Sign a token as Google does for a push."""
    claims = {
        "iss": "https://accounts.google.com",
        "aud": AUDIENCE,
        "email": ACCOUNT,
        "email_verified": True,
        "exp": dt.datetime.now(dt.UTC) + dt.timedelta(hours=1),
    }
    return jwt.encode(claims | changes, KEY, "RS256", headers={"kid": "k1"})


LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
FORGED = jwt.encode({"aud": AUDIENCE}, STRANGER, "RS256", headers={"kid": "k1"})


async def test_a_token_of_google_counts_if_it_is_for_us_and_from_our_account(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    keys_url: str,
) -> None:
    """With an account in the settings the secret key no longer opens the door."""
    said = {
        "pubsub_audience": AUDIENCE,
        "pubsub_account": ACCOUNT,
        "pubsub_keys_url": HttpUrl(keys_url),
    }
    body = envelope({"job_id": str(uuid.uuid4())})
    async with house.opened(
        database, gateway, chosen.model_copy(update=said), Sayer()
    ) as functions:

        async def status(token: str) -> int:
            answer = await push(functions, body, Authorization=f"Bearer {token}")
            return answer.status_code

        assert await status(signed()) == 204
        refused = {
            "another audience": signed(aud="https://elsewhere.example.org"),
            "another issuer": signed(iss="https://evil.example.org"),
            "expired": signed(exp=LONG_AGO),
            "forged": FORGED,
            "none": "-",
            "nonsense": "a.b.c",
            "our own": house.token(uuid.uuid4()),
        }
        for why, token in refused.items():
            assert await status(token) == 401, why
        assert await status(signed(email="other@example.org")) == 403
        assert await status(signed(email_verified=False)) == 403
        assert (await push(functions, body)).status_code == 401
