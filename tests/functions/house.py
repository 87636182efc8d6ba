"""A running functions server, and the people who use it."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import jwt

from functions import app, services
from pagewarden import files, keys, tokens
from tests.database import factories
from tests.support.serving import serving

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from tests.support import databases

UPLOAD_LIMIT = 6_000_000
SECRET = "the secret of this test, which is long enough"
KEYS = keys.Keys("sb_secret_of_a_test", "sb_publishable_of_a_test", SECRET)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
PDF = b"%PDF-1.7\n" + b"x" * 5000


def token(user: uuid.UUID, **changes: object) -> str:
    """Sign a token as Supabase does; changes replace claims, None takes one out."""
    claims = {
        "sub": str(user),
        "role": "authenticated",
        "aud": "authenticated",
        "exp": dt.datetime.now(dt.UTC) + dt.timedelta(hours=1),
        **changes,
    }
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, SECRET, "HS256")


@dataclass(frozen=True, slots=True)
class House:
    """A functions server, its database, and the folder of its files."""

    url: str
    database: databases.Database
    factory: factories.Factory
    used: services.Services
    folder: Path
    session: httpx.AsyncClient

    async def post(
        self, path: str, *, user: uuid.UUID | None = None, **options: Any
    ) -> httpx.Response:
        """Send a request as this person, or without a token."""
        return await self.call("POST", path, user=user, **options)

    async def call(
        self, method: str, path: str, *, user: uuid.UUID | None = None, **options: Any
    ) -> httpx.Response:
        """Send a request as this person, or without a token."""
        headers = options.pop("headers", {})
        if user is not None:
            headers = {"Authorization": f"Bearer {token(user)}", **headers}
        return await self.session.request(
            method, f"/functions/v1/{path}", headers=headers, **options
        )

    async def upload(
        self, user: uuid.UUID, content: bytes, name: str = "scan.png", **fields: str
    ) -> httpx.Response:
        """Upload a file as a form does."""
        return await self.post(
            "upload-to-dropbox", user=user, data=fields, files={"file": (name, content)}
        )

    def stored(self) -> list[Path]:
        """List the files in the store."""
        return [path for path in self.folder.rglob("*") if path.is_file()]

    async def documents(self) -> list[dict[str, Any]]:
        """List the documents, whoever owns them."""
        return await self.used.database.select("documents", order="created_at")


@contextlib.asynccontextmanager
async def opened(
    database: databases.Database, gateway: Database, settings: Settings
) -> AsyncIterator[House]:
    """Serve the functions on loopback."""
    async with files.open_store(settings) as store:
        used = services.Services(settings, gateway, store, tokens.Verifier(KEYS))
        async with (
            serving(app.create_app(used)) as url,
            httpx.AsyncClient(base_url=url, timeout=30) as session,
        ):
            factory = await factories.Factory.of(database)
            yield House(url, database, factory, used, settings.home / "files", session)
