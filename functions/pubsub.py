"""`pubsub`: read the pictures of check jobs pushed by Pub/Sub.

The response is 2xx only once the job's outcome is recorded, so after a crash, a timeout or a
database outage Pub/Sub delivers the message again. Delivering a message twice is harmless.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
import uuid
from typing import Annotated, Any

import jwt
import pydantic
import structlog
from fastapi import APIRouter, Depends, Request, Response, Security, security

from pagewarden import services
from pagewarden.auth import tokens
from pagewarden.database import tables
from pagewarden.documents import lanes
from pagewarden.errors import Forbidden, NotSignedIn, RequestRejected
from pagewarden.functions.http import authentication, document_workers, errors, function_config
from pagewarden.services import Services
from pagewarden.web import request_body

NAME = "pubsub"

# Pub/Sub waits at most ten minutes for a response; this suits shorter deadlines, too.
BUDGET_SECONDS = 50.0
_POLL_SECONDS = 0.5
_RETRY_SECONDS = 10
_ISSUERS = ("https://accounts.google.com", "accounts.google.com")


class PubSubMessage(pydantic.BaseModel):
    """A message of Pub/Sub; `data` is base64."""

    data: str


class Envelope(pydantic.BaseModel):
    """The body of a push request."""

    message: PubSubMessage
    subscription: str | None = None


class Body(pydantic.BaseModel):
    """The data of a message."""

    job_id: uuid.UUID = pydantic.Field(validation_alias=pydantic.AliasChoices("job_id", "jobId"))


# Only for the OpenAPI document, as in authentication.
_PUSH_TOKEN = security.HTTPBearer(
    scheme_name="PushToken",
    bearerFormat="JWT",
    auto_error=False,
    description="The OIDC token of the push subscription.",
)


async def _check_caller(
    request: Request,
    services: services.Current,
    _token: Annotated[security.HTTPAuthorizationCredentials | None, Security(_PUSH_TOKEN)],
    _key: Annotated[str | None, Security(authentication.SECRET_KEY)],
) -> None:
    """Allow pushes by the configured service account, or without one by holders of the secret key.

    With PAGEWARDEN_PUBSUB_AUDIENCE set, a token of that account is required.
    """
    audience = services.settings.pubsub_audience
    if audience is None:
        caller = await services.verifier.caller(request.headers)
        if not caller.is_service:
            raise Forbidden("only Pub/Sub and services can call this function; send the secret key")
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        claims = await _verify(request, services, token if scheme.lower() == "bearer" else "")
    except jwt.PyJWTError as exc:
        raise NotSignedIn(f"the push token is invalid ({exc})") from exc
    if claims.get("email") != services.settings.pubsub_account or not claims.get("email_verified"):
        raise Forbidden(
            "the push token does not belong to the account set in PAGEWARDEN_PUBSUB_ACCOUNT"
        )


async def _verify(request: Request, services: Services, token: str) -> dict[str, Any]:
    """Verify the token of a push, and return its claims."""
    keys = _public_keys(request, services)
    key = await keys.find(str(jwt.get_unverified_header(token).get("kid")))
    if key is None:
        raise jwt.InvalidKeyError("unknown signing key")
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[key.algorithm_name],
        audience=services.settings.pubsub_audience,
        issuer=_ISSUERS,
        options={"require": ["exp", "aud", "iss"]},
    )
    return claims


def _public_keys(request: Request, services: Services) -> tokens.PublicKeys:
    """Return the public keys of Pub/Sub's tokens, cached for all pushes of this app."""
    state = request.app.state
    if not hasattr(state, "pubsub_keys"):
        state.pubsub_keys = tokens.PublicKeys(str(services.settings.pubsub_keys_url))
    keys: tokens.PublicKeys = state.pubsub_keys
    return keys


router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=[
        Depends(_check_caller),
        Depends(authentication.require_enabled(NAME)),
        Depends(function_config.record_run(NAME)),
    ],
    responses=errors.error_responses(400, 401, 403, 408, 413, 503),
    route_class=request_body.BodyLimitRoute,
)


def _parse_job_id(envelope: Envelope) -> uuid.UUID:
    try:
        data = base64.b64decode(envelope.message.data, validate=True)
        return Body.model_validate_json(data).job_id
    except (binascii.Error, ValueError) as exc:
        raise RequestRejected(
            "INVALID_MESSAGE", 'the message data is not base64-encoded {"job_id": "…"}'
        ) from exc


@router.post("/push", status_code=204)
async def push(envelope: Envelope, services: services.Current) -> Response:
    """Read pictures until the job of the message has ended."""
    job_id = _parse_job_id(envelope)
    structlog.contextvars.bind_contextvars(job=str(job_id))
    deadline = time.monotonic() + BUDGET_SECONDS
    worker = document_workers.make_worker(services, NAME, (lanes.CHECK,), BUDGET_SECONDS)
    while not await _has_ended(services, job_id):
        if time.monotonic() > deadline or services.stopping.is_set():
            raise RequestRejected(
                "NOT_DONE_YET",
                "the job has not ended yet; redeliver the message",
                retry_after=_RETRY_SECONDS,
            )
        if not await worker.process_next(services.stopping):
            await asyncio.sleep(_POLL_SECONDS)
    return Response(status_code=204)


async def _has_ended(services: Services, job_id: uuid.UUID) -> bool:
    """Tell whether a job has ended or no longer exists."""
    rows = await services.database.select(
        tables.check_jobs, columns="outcome", where={"id": str(job_id)}
    )
    return not rows or rows[0]["outcome"] is not None
