"""A running functions server, and the people who use it."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import jwt

from pagewarden import concurrency, services, storage
from pagewarden.auth import hosted, keys, tokens
from pagewarden.database import tables
from pagewarden.documents import page_images
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.reader import open_local_reader
from pagewarden.functions import app
from tests.database import factories
from tests.ocr import samples
from tests.support import lite as lites
from tests.support.serving import serve_app
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.database import Database
    from pagewarden.documents.claim import DocumentReader
    from pagewarden.settings import Settings
    from tests.support import databases

UPLOAD_LIMIT = 6_000_000
SECRET = lites.JWT_SECRET
KEYS = keys.InstallationKeys(
    "sb_secret_of_a_test", "sb_publishable_of_a_test", SECRET, "whsec_b2YgYSB0ZXN0"
)
# Says how large a white page is.
WISHES = ReadOptions(engine="fake-remote")

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
PDF = b"%PDF-1.7\n" + b"x" * 5000
READABLE_PDF = samples.make_text_pdf(samples.PROSE, samples.PROSE)


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

    async def serve(self, path: str, **options: Any) -> httpx.Response:
        """Call a function as one of our services does."""
        return await self.post(path, headers={"apikey": KEYS.secret_key}, **options)

    async def read(self) -> None:
        """Have everything read that waits."""
        for name in ("ocr-worker", "pdf-worker"):
            (await self.serve(name)).raise_for_status()

    def stored(self) -> list[Path]:
        """List the files in the store."""
        return [path for path in self.folder.rglob("*") if path.is_file()]

    async def documents(self) -> list[Any]:
        """List the documents, whoever owns them."""
        return await self.used.database.select(tables.documents, order="created_at")


@contextlib.asynccontextmanager
async def opened(
    database: databases.Database,
    gateway: Database,
    settings: Settings,
    reader: DocumentReader | None = None,
    *,
    known: keys.InstallationKeys = KEYS,
    signing_in: hosted.SignInProvider | None = None,
) -> AsyncIterator[House]:
    """Serve the functions on loopback; without a reader, they read with the real sandbox."""
    async with contextlib.AsyncExitStack() as resources:
        enter = resources.enter_async_context
        store = await enter(storage.open_store(settings))
        if reader is None:
            reader = await enter(open_local_reader(store, options=WISHES, processes=1))
        exporter = await enter(concurrency.open_lazily(services.make_exporter))
        verifier = tokens.TokenVerifier(known)
        if signing_in is None:
            signing_in = await enter(hosted.open_hosted_sign_in("", known.publishable_key or ""))
        used = services.Services(
            settings,
            gateway,
            store,
            known,
            verifier,
            signing_in,
            SingleReader(reader),
            exporter,
            await enter(page_images.open_page_images(store, exporter)),
            await enter(services.open_volumes(settings)),
        )
        url = await enter(serve_app(app.create_app(used)))
        session = await enter(httpx.AsyncClient(base_url=url, timeout=30))
        factory = await factories.Factory.of(database)
        yield House(url, database, factory, used, settings.home / "files", session)
