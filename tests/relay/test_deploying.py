"""The Supabase CLI deploys the relay under the name of each function."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response

from pagewarden.functions.http import function_config
from tests.support import deno, serving, supabase_cli

pytestmark = pytest.mark.skipif(
    not supabase_cli.PROGRAM.exists(), reason="the Supabase CLI is not installed on this platform"
)


@dataclass(slots=True)
class ManagementApi:
    """The part of Supabase's management API that the CLI needs to deploy."""

    deployed: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, set[bytes]] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    secrets: list[dict[str, str]] = field(default_factory=list)

    def app(self) -> FastAPI:
        """Return the app."""
        app = FastAPI()
        project = f"/v1/projects/{supabase_cli.PROJECT}"
        app.add_api_route(
            f"{project}/functions/deploy", self._deploy, methods=["POST"], status_code=201
        )
        app.add_api_route(f"{project}/functions", self._activate, methods=["PUT"])
        app.add_api_route(
            f"{project}/secrets", self._set_secrets, methods=["POST"], status_code=201
        )
        return app

    async def _deploy(self, slug: str, request: Request) -> dict[str, Any]:
        async with request.form() as form:
            self.deployed[slug] = json.loads(str(form["metadata"]))
            files = [item for item in form.getlist("file") if not isinstance(item, str)]
            self.sources[slug] = {await file.read() for file in files}
        return {"id": slug, "slug": slug, "name": slug, "status": "ACTIVE", "version": 1}

    async def _activate(self, request: Request) -> Response:
        self.active = [function["slug"] for function in await request.json()]
        return Response("{}", media_type="application/json")

    async def _set_secrets(self, request: Request) -> None:
        self.secrets = await request.json()


async def test_cli_deploys_the_relay_for_each_function() -> None:
    """With all source files, and with verify_jwt as in config.toml."""
    api = ManagementApi()
    async with serving.serve_app(api.app()) as url:
        await supabase_cli.deploy_functions(url)
    source = {path.read_bytes() for path in deno.RELAY.glob("*.ts")}
    assert set(api.deployed) == set(api.active) == function_config.list_functions()
    for name, metadata in api.deployed.items():
        assert metadata["verify_jwt"] is function_config.requires_user_token(name)
        assert metadata["entrypoint_path"] == "supabase/functions/relay/index.ts"
        assert api.sources[name] == source


async def test_cli_sets_the_url_of_pagewarden() -> None:
    """As a secret of the project, under the name that the relay reads."""
    api = ManagementApi()
    async with serving.serve_app(api.app()) as url:
        await supabase_cli.set_secret(url, "PAGEWARDEN_URL", "https://pagewarden.example.org")
    assert api.secrets == [{"name": "PAGEWARDEN_URL", "value": "https://pagewarden.example.org"}]
