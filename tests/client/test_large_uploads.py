"""Files above the limit of a gateway: the client notices no difference, whatever the store."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pagewarden import database as gateways
from pagewarden import errors
from pagewarden.auth.embedded import service
from pagewarden.client import client as clients
from pagewarden.database import tables
from tests.client import breaking
from tests.client import desk as desks
from tests.functions import house
from tests.functions.sign_in import houses
from tests.storage import stores
from tests.storage.conftest import backend, bucket, dropbox, moto

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.settings import Settings
    from tests.documents import readers
    from tests.support import databases

__all__ = ["backend", "bucket", "dropbox", "limited_desk", "moto"]

LIMIT = 100_000
LARGE = house.PNG + b"\0" * 300_000


@pytest.fixture
async def limited_desk(
    database: databases.Database,
    chosen: Settings,
    backend: stores.Backend,
    recorder: readers.Recorder,
    tmp_path: Path,
) -> AsyncIterator[desks.Desk]:
    """Serve as if behind a gateway that limits requests and responses."""
    names = ("files", "dropbox", "s3")
    store = {name: value for name, value in backend.settings if name.startswith(names)}
    changes = {**store, "max_direct_upload": LIMIT, "max_direct_download": 5}
    settings = chosen.model_copy(update=changes)
    signing = service.AuthService(
        database.url(), house.KEYS, site_url="http://x", hasher=houses.CHEAP
    )
    async with (
        await gateways.connect_direct(database.url()) as gateway,
        house.opened(database, gateway, settings, recorder, signing_in=signing) as opened,
    ):
        yield desks.Desk(opened, signing, tmp_path / "computer")
    await signing.aclose()


async def test_large_file_is_uploaded_and_its_text_downloaded(
    limited_desk: desks.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress, options and answers are those of a small file; again, it is an existing one."""
    monkeypatch.setattr(clients, "CHUNK_BYTES", LIMIT)
    desk, sent = limited_desk, list[int]()
    options = clients.UploadOptions(language="de")
    path = desk.file("größe.png", LARGE)
    async with desk.connected() as ada:
        small = await ada.upload(desk.file())
        large = await ada.upload(path, options=options, on_sent=sent.append)
        again = await ada.upload(path)
        assert sent == [0, 100_000, 200_000, 300_000, len(LARGE)]
        assert (large.name, large.existing, again.existing) == ("größe.png", False, True)
        assert large.document_id == again.document_id != small.document_id
        await desk.house.read()
        text = io.BytesIO()
        await ada.save_text(large.document_id, "txt", text)
    assert text.getvalue() == desks.TEXT.encode()
    row = await desk.house.used.database.select(tables.documents, where={"id": large.document_id})
    assert (row[0]["language"], row[0]["size_bytes"]) == ("de", len(LARGE))
    store = desk.house.used.store
    assert await stores.read_all(store, str(row[0]["dropbox_path"])) == LARGE
    assert not [entry async for entry in store.list("uploads")]


async def test_token_is_not_sent_to_the_store(
    limited_desk: desks.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with a file nor for a large export."""
    calls: list[tuple[str, bool]] = []
    send = httpx.AsyncClient.send

    async def record(
        client: httpx.AsyncClient, request: httpx.Request, **options: Any
    ) -> httpx.Response:
        has_credentials = not {"authorization", "apikey"}.isdisjoint(request.headers)
        if not request.url.path.startswith(("/2/", "/oauth2/")):  # our server calls Dropbox
            calls.append((request.url.path, has_credentials))
        return await send(client, request, **options)

    desk = limited_desk
    async with desk.connected() as ada:
        with monkeypatch.context() as patch:
            patch.setattr(httpx.AsyncClient, "send", record)
            document = await ada.upload(desk.file("a.png", LARGE))
        await desk.house.read()
        with monkeypatch.context() as patch:
            patch.setattr(httpx.AsyncClient, "send", record)
            await ada.save_text(document.document_id, "txt", io.BytesIO())
    public = [path for path, has_credentials in calls if not has_credentials]
    own = [path for path, has_credentials in calls if has_credentials]
    assert len(public) == 2
    assert len(own) == 4  # limits, address, confirmation, export
    assert all(path.startswith("/functions/v1/") for path in own)


async def test_interrupted_upload_is_repeated(
    desk: desks.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the address; a file that changed in between is rejected, and nothing is stored."""

    async def limit(_client: clients.Client) -> int:
        return LIMIT

    monkeypatch.setattr(clients.Client, "_fetch_max_direct_bytes", limit)
    monkeypatch.setattr(clients, "CHUNK_BYTES", LIMIT)
    path = desk.file("a.png", LARGE)
    async with (
        breaking.line(desk.house.url, cuts=2, after=200_000) as line,
        desk.connected(line.url) as ada,
    ):
        document = await ada.upload(path)
    assert (line.broken, document.existing) == (2, False)

    digest = desk.file("b.png", LARGE)
    async with desk.connected() as ada:
        compute = clients.UploadFile.compute_sha256

        async def compute_then_change(file: clients.UploadFile) -> str:
            found = await compute(file)
            digest.write_bytes(LARGE[:-1] + b"x")
            return found

        monkeypatch.setattr(clients.UploadFile, "compute_sha256", compute_then_change)
        with pytest.raises(errors.CallRejected, match="not the announced one") as caught:
            await ada.upload(digest)
    assert (caught.value.status, caught.value.code) == (422, "UPLOAD_MISMATCH")
    assert len(desk.house.stored()) == 1
