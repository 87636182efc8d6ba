"""The OpenAPI document: whatever it allows to be sent gets an answer that it tells of."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core import result

from pagewarden.auth.embedded.service import AuthService
from pagewarden.functions import app
from pagewarden.web import errors
from tests.functions import house
from tests.functions.sign_in import houses

if TYPE_CHECKING:
    import uuid

    from pagewarden import database as gateways
    from pagewarden import settings as settings_module
    from tests.documents import readers
    from tests.support import databases

EXAMPLES = 15
LONG_EXAMPLES = 300

_QUICK = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def _examine(url: str, headers: dict[str, str], examples: int) -> set[str]:
    """Send what the document allows to every route, and name the routes."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    seen = set()
    for found in schema.get_all_operations():
        assert isinstance(found, result.Ok), found
        operation = found.ok()
        seen.add(operation.label)

        @settings(_QUICK, max_examples=examples)
        @given(case=operation.as_strategy())
        def send(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(headers=headers, checks=_CHECKS, timeout=30)

        send()
    return seen


async def _examined(  # what a server is made of
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
    *,
    examples: int,
    as_service: bool,
) -> set[str]:
    service = AuthService(database.url(), houses.KEYS, site_url=houses.SITE, hasher=houses.CHEAP)
    async with (
        contextlib.aclosing(service),
        house.opened(database, gateway, chosen, recorder, signing_in=service) as opened,
    ):
        user: uuid.UUID = await opened.factory.user(admin=True)
        headers = {"Authorization": f"Bearer {house.token(user)}"}
        if as_service:
            headers = {"apikey": house.KEYS.secret_key}
        return await asyncio.to_thread(_examine, opened.url, headers, examples)


def _list_operations(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_document_lists_every_route_once_and_completely() -> None:
    """Under the address that callers use, with summary, described errors and credentials."""
    document = app.create_app().openapi()
    listed = _list_operations(document)
    expected = {("GET", path) for path in ("/files/v1/{path}", "/healthz", "/readyz", "/metrics")}
    expected.add(("PUT", "/storage/v1/object/upload/sign/{bucket}/{path}"))
    for function in app.FUNCTIONS:
        alone = FastAPI()
        alone.include_router(function.router)
        prefix = "" if function.NAME in {"jobs", "pubsub"} else "/functions/v1"
        expected |= {(method, prefix + path) for method, path in _list_operations(alone.openapi())}
    assert set(listed) == expected
    ids = [operation["operationId"] for operation in listed.values()]
    assert len(set(ids)) == len(ids)
    schemes = document["components"]["securitySchemes"]
    for route, operation in listed.items():
        assert operation["summary"].count(" ") >= 2, route
        assert all(set(one) <= set(schemes) for one in operation["security"]), route
        for status, response in operation["responses"].items():
            if status >= "400":
                assert response["description"] == errors.MEANINGS[int(status)], route
    assert listed["POST", "/jobs"]["servers"] == [
        {"url": "/"},
        {"url": "/functions/v1", "description": "The same as a function; on hosted Supabase"},
    ]
    assert listed["POST", "/functions/v1/ocr-worker"]["security"] == [{"SecretKey": []}]
    assert listed["GET", "/healthz"]["security"] == []


@pytest.mark.parametrize("as_service", [True, False], ids=["service", "person"])
async def test_no_route_answers_what_its_document_does_not_tell(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
    *,
    as_service: bool,
) -> None:
    """No 500 and no undocumented status, type or shape; for a service and for a person."""
    seen = await _examined(
        database, gateway, chosen, recorder, examples=EXAMPLES, as_service=as_service
    )
    assert {
        "POST /jobs",
        "POST /pubsub/push",
        "POST /functions/v1/upload-to-dropbox",
        "GET /functions/v1/documents/{document_id}/export",
        "POST /functions/v1/ocr-worker",
        "GET /files/v1/{path}",
        "POST /auth/v1/token",
        "GET /readyz",
    } <= seen


@pytest.mark.long
async def test_many_more_examples_find_nothing_either(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """The same at length."""
    await _examined(database, gateway, chosen, recorder, examples=LONG_EXAMPLES, as_service=True)
