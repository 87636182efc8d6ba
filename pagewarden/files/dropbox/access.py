"""Tokens that open a Dropbox for some hours, made anew from one that lasts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pydantic

from pagewarden import errors
from pagewarden.files.dropbox import faults

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

_MARGIN_SECONDS = 300.0  # before its end, a token is not used for something new


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an app of ours and the owner of a Dropbox agreed on; no secret goes with PKCE."""

    app_key: str
    app_secret: str | None = field(repr=False)
    refresh_token: str = field(repr=False)


class _Answer(pydantic.BaseModel):
    access_token: str
    expires_in: float


class Access:
    """The token of the hour."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        credentials: Credentials,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._url = url
        self._credentials = credentials
        self._now = now
        self._lock = asyncio.Lock()
        self._token = ""
        self._ends = 0.0

    async def token(self) -> str:
        """Give a token that is good for a while."""
        async with self._lock:  # many may find it expired, one fetches the next
            if not self._token or self._now() >= self._ends:
                await self._refresh()
            return self._token

    def forget(self, token: str) -> None:
        """Let a token that was refused be replaced, unless it has been already."""
        if token == self._token:
            self._token = ""

    async def _refresh(self) -> None:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self._credentials.refresh_token,
            "client_id": self._credentials.app_key,
        }
        if self._credentials.app_secret:
            form["client_secret"] = self._credentials.app_secret
        with faults.transported():
            response = await self._client.post(self._url, data=form)
        if response.status_code in {400, 401}:
            raise errors.StoreKeyRefused(
                "Dropbox takes our refresh token no more; connect the app again and set "
                "DROPBOX_APP_KEY, DROPBOX_APP_SECRET and DROPBOX_REFRESH_TOKEN"
            )
        if not response.is_success:
            raise faults.of_answer(response.status_code, response.headers, response.content)
        answer = _understood(response.content)
        self._token = answer.access_token
        self._ends = self._now() + answer.expires_in - _MARGIN_SECONDS


def _understood(body: bytes) -> _Answer:
    try:
        return _Answer.model_validate_json(body)
    except pydantic.ValidationError as exc:
        raise errors.StoreAway("Dropbox gave no token that we understand; try again") from exc
