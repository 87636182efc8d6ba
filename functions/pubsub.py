"""pubsub: read the pictures of check jobs that a queue of Pub/Sub pushes.

A push is answered with 2xx only when the outcome of its job is recorded, so a crash, a time-out or
a database that is away makes Pub/Sub deliver it again; one that is delivered twice finds its job
ended, or helps to end it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
import uuid
from typing import Any

import jwt
import pydantic
from fastapi import APIRouter, Depends, Request, Response

from functions import answers, callers, runs, services, working
from pagewarden import errors, jwks, small_bodies
from pagewarden.database import tables
from pagewarden.documents import manners

NAME = "pubsub"

# Pub/Sub waits ten minutes for an answer at the most; whoever set less is answered in time, too.
BUDGET_SECONDS = 50.0
_POLL_SECONDS = 0.5
_RETRY_SECONDS = 10
_ISSUERS = ("https://accounts.google.com", "accounts.google.com")


class Message(pydantic.BaseModel):
    """What Pub/Sub delivers; data is base64."""

    data: str


class Envelope(pydantic.BaseModel):
    """A push, as Pub/Sub sends it."""

    message: Message
    subscription: str | None = None


class Body(pydantic.BaseModel):
    """What the data of a message says."""

    job_id: uuid.UUID = pydantic.Field(validation_alias=pydantic.AliasChoices("job_id", "jobId"))


async def _pusher(request: Request, used: services.Used) -> None:
    """Let in who may push: the service account of the settings, or whoever has the secret key."""
    audience = used.settings.pubsub_audience
    if audience is None:
        caller = await used.verifier.caller(request.headers)
        if not caller.is_service:
            raise errors.Forbidden("this is for Pub/Sub; send the secret key")
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        claims = await _claims(request, used, token if scheme.lower() == "bearer" else "")
    except jwt.PyJWTError as exc:
        raise errors.NotSignedIn(f"the token of the push does not count ({exc})") from exc
    if claims.get("email") != used.settings.pubsub_account or not claims.get("email_verified"):
        raise errors.Forbidden("the push comes from another account than PAGEWARDEN_PUBSUB_ACCOUNT")


async def _claims(request: Request, used: services.Services, token: str) -> dict[str, Any]:
    keys = _keys(request, used)
    key = await keys.find(str(jwt.get_unverified_header(token).get("kid")))
    if key is None:
        raise jwt.InvalidKeyError("it is signed with a key that is not known here")
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[key.algorithm_name],
        audience=used.settings.pubsub_audience,
        issuer=_ISSUERS,
        options={"require": ["exp", "aud", "iss"]},
    )
    return claims


def _keys(request: Request, used: services.Services) -> jwks.PublicKeys:
    """Keep the keys that were fetched for all pushes of this app."""
    state = request.app.state
    if not hasattr(state, "pubsub_keys"):
        state.pubsub_keys = jwks.PublicKeys(str(used.settings.pubsub_keys_url))
    found: jwks.PublicKeys = state.pubsub_keys
    return found


router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=[
        Depends(_pusher),
        Depends(callers.switched_on(NAME)),
        Depends(runs.noted(NAME)),
    ],
    responses=answers.documented(400, 401, 403, 408, 413, 503),
    route_class=small_bodies.Route,
)


def _job_of(envelope: Envelope) -> uuid.UUID:
    try:
        data = base64.b64decode(envelope.message.data, validate=True)
        return Body.model_validate_json(data).job_id
    except (binascii.Error, ValueError) as exc:
        raise answers.RefusedError(
            400, "INVALID_MESSAGE", 'the data of the message is not base64 of {"job_id": "…"}'
        ) from exc


@router.post("/push", status_code=204)
async def push(envelope: Envelope, used: services.Used) -> Response:
    """Read pictures until the job of this message has ended."""
    job_id = _job_of(envelope)
    deadline = time.monotonic() + BUDGET_SECONDS
    worker = working.worker(used, NAME, (manners.CHECK,), BUDGET_SECONDS)
    while not await _has_ended(used, job_id):
        if time.monotonic() > deadline or used.stopping.is_set():
            raise answers.RefusedError(
                503,
                "NOT_DONE_YET",
                "the job has not ended yet; deliver it again",
                {"Retry-After": str(_RETRY_SECONDS)},
            )
        if not await worker.serve(used.stopping):
            await asyncio.sleep(_POLL_SECONDS)
    return Response(status_code=204)


async def _has_ended(used: services.Services, job_id: uuid.UUID) -> bool:
    """Tell whether nothing is left to do for a job, also because nobody knows it any more."""
    rows = await used.database.select(
        tables.check_jobs, columns="outcome", where={"id": str(job_id)}
    )
    return not rows or rows[0]["outcome"] is not None
