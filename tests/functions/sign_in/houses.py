"""A sign-in for tests: served on loopback, with a clock that can be moved."""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import argon2
import httpx
import jwt

import supabase
from pagewarden.auth import keys
from pagewarden.auth.embedded import sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from supabase_auth import Session

    from pagewarden.auth.embedded.service import AuthService
    from tests.support import databases

SITE = "http://pagewarden.example.org"
PASSWORD = "correct horse battery staple"
SECRET = "the secret of this test, which is long enough"
KEYS = keys.InstallationKeys("sb_secret_of_a_test", "sb_publishable_of_a_test", SECRET)
HOME = sessions.RequestOrigin("192.0.2.1", "test")
# Right for tests only: the usual costs would take most of their time.
CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


# Making one for each client would take longer than what they do.
TLS = ssl.create_default_context()


def http(url: str = "") -> httpx.AsyncClient:
    """Make a client of HTTP without anything of Supabase."""
    return httpx.AsyncClient(base_url=url, verify=TLS, timeout=60)  # for what hangs


@dataclass
class House:
    """A running sign-in: its address, its clock, and the links it sent."""

    database: databases.Database
    url: str = ""
    ahead: dt.timedelta = dt.timedelta(0)
    sent: list[tuple[str, str]] = field(default_factory=list)
    service: AuthService = field(init=False)

    def now(self) -> dt.datetime:
        """Give the time of this house."""
        return dt.datetime.now(dt.UTC) + self.ahead

    async def deliver(self, email: str, link: str) -> None:
        """Keep a link instead of sending it."""
        self.sent.append((email, link))

    async def somebody(self) -> str:
        """Add somebody with the password of this test, and give the address."""
        email = f"{uuid.uuid4().hex}@example.org"
        await self.service.users.add(email, PASSWORD, is_admin=False)
        return email

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[supabase.AsyncClient]:
        """Make a client as programs of people have it."""
        async with http() as session:
            options = supabase.AsyncClientOptions(httpx_client=session, auto_refresh_token=False)
            yield await supabase.acreate_client(self.url, KEYS.publishable_key or "", options)

    @contextlib.asynccontextmanager
    async def signed_in(self, email: str = "") -> AsyncIterator[supabase.AsyncClient]:
        """Make a client of somebody who is signed in."""
        async with self.client() as client:
            await sign_in(client, email or await self.somebody())
            yield client

    async def row(self, query: str, *params: object) -> Any:
        """Look into the database."""
        conn = await self.database.connect()
        return await (await conn.execute(query.encode(), params)).fetchone()


async def sign_in(client: supabase.AsyncClient, email: str, password: str = PASSWORD) -> Session:
    """Sign in as a person does."""
    answer = await client.auth.sign_in_with_password({"email": email, "password": password})
    assert answer.session is not None
    return answer.session


async def session_of(client: supabase.AsyncClient) -> Session:
    """Give the session that a client has."""
    session = await client.auth.get_session()
    assert session is not None
    return session


async def refresh(client: supabase.AsyncClient, token: str) -> Session:
    """Go on with a refresh token."""
    answer = await client.auth.refresh_session(token)
    assert answer.session is not None
    return answer.session


def claims_of(session: Session) -> dict[str, Any]:
    """Read what an access token says."""
    claims: dict[str, Any] = jwt.decode(
        session.access_token, SECRET, ["HS256"], audience="authenticated"
    )
    return claims
