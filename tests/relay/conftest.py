"""A relay in front of a server that records its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.relay import upstream as upstreams
from tests.support import deno, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True, slots=True)
class Relayed:
    """The relay, the server behind it, and a client in front of it."""

    relay: deno.Relay
    upstream: upstreams.Upstream
    upstream_url: str
    client: httpx.AsyncClient


@pytest.fixture(scope="session")
async def shared_relay() -> AsyncIterator[Relayed]:
    """Run a relay, and a server for it to call, for all tests."""
    upstream = upstreams.Upstream()
    async with (
        serving.serve_app(upstream) as url,
        deno.run_relay(url) as relay,
        httpx.AsyncClient(base_url=relay.url, timeout=20) as client,
    ):
        yield Relayed(relay, upstream, url, client)


@pytest.fixture
def relayed(shared_relay: Relayed) -> Relayed:
    """Return the relay, with no recorded requests."""
    shared_relay.upstream.reset()
    return shared_relay
