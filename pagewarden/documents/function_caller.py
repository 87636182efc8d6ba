"""FunctionCaller: call the functions that read documents over HTTP."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from pagewarden import errors
from pagewarden.documents import routing
from pagewarden.documents.claim import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.documents.claim import Claim
    from pagewarden.storage import FileStore

_CONNECT_SECONDS = 10.0
_EXCERPT_LENGTH = 200


@dataclass(slots=True)
class FunctionCaller:
    """Calls the functions that read documents; `problem` is the last call that failed."""

    client: httpx.AsyncClient
    store: FileStore
    problem: str | None = field(default=None, init=False)

    async def read(self, claim: Claim) -> Outcome:
        """Have a document read; return the outcome, or raise FunctionDisabled or DispatchFailed."""
        function = await routing.find_function(claim, self.store)
        try:
            response = await self.client.post(
                f"/functions/v1/{function}",
                json={"document_id": claim.id, "lock_token": claim.lock_token},
            )
        except httpx.HTTPError as exc:
            raise errors.DispatchFailed(
                f"{function} at {self.client.base_url} does not answer "
                f"({str(exc) or type(exc).__name__}); check PAGEWARDEN_FUNCTIONS_URL"
            ) from exc
        answer = _parse_object(response)
        if answer.get("error") == "SWITCHED_OFF":
            raise errors.FunctionDisabled(f"{function} is disabled")
        with contextlib.suppress(ValueError):
            if response.is_success:
                return Outcome(str(answer.get("outcome")))
        raise errors.DispatchFailed(
            f"{function} at {self.client.base_url} was not called: status {response.status_code}, "
            f"{response.text[:_EXCERPT_LENGTH]!r}; check PAGEWARDEN_FUNCTIONS_URL and the gateway"
        )


@contextlib.asynccontextmanager
async def open_caller(url: str, key: str, store: FileStore) -> AsyncIterator[FunctionCaller]:
    """Open a caller of the functions at this URL, with the secret key."""
    headers = {"apikey": key}
    if key.count(".") == 2:  # a legacy key is a JWT, and some gateways require it as bearer token
        headers["Authorization"] = f"Bearer {key}"
    # The budget of the dispatcher limits the wait, its concurrency the connections.
    timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, limits=limits, trust_env=False
    ) as client:
        yield FunctionCaller(client, store)


def _parse_object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response; empty if it is anything else, such as an error page."""
    with contextlib.suppress(ValueError):
        content = response.json()
        if isinstance(content, dict):
            return content
    return {}
