"""From an upload to its text with nobody touching it, over both transports."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import httpx
import pytest

import supabase
from tests.functions import house
from tests.functions.test_workers import white_png
from tests.ocr import samples
from tests.support import transports

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator

    from pagewarden import settings as settings_module
    from tests.functions.house import House
    from tests.support import databases


# The client of Supabase still says so of itself.
pytestmark = pytest.mark.filterwarnings("ignore:The '(timeout|verify)' parameter is deprecated")


@pytest.fixture(params=transports.NAMES)
async def either(
    request: pytest.FixtureRequest,
    database: databases.Database,
    chosen: settings_module.Settings,
) -> AsyncIterator[House]:
    """Serve the functions on either transport, with the real sandbox."""
    async with (
        transports.open_database(request.param, database) as gateway,
        house.opened(database, gateway, chosen) as opened,
    ):
        yield opened


@contextlib.asynccontextmanager
async def _client(url: str, user: uuid.UUID) -> AsyncIterator[supabase.AsyncClient]:
    """Have the client of Supabase, signed in, and close its connections."""
    async with httpx.AsyncClient(timeout=60) as http:
        options = supabase.AsyncClientOptions(httpx_client=http)
        client = await supabase.create_async_client(url, house.KEYS.publishable_key or "", options)
        client.functions.set_auth(house.token(user))
        yield client


async def test_an_upload_becomes_text_over_either_transport(either: House) -> None:
    """Upload, wait, fetch, read again, bin, restore: as the client of Supabase calls functions."""
    user = await either.factory.user()
    names = {"photo.png": white_png(), "letter.pdf": house.READABLE_PDF}
    ids = {}
    async with _client(either.url, user) as client:
        for name, content in names.items():
            headers = {"X-File-Name": name, "Content-Type": "application/octet-stream"}
            answer = await client.functions.invoke(
                "upload-to-dropbox", {"body": content, "headers": headers}
            )
            assert isinstance(answer, bytes)
            ids[name] = json.loads(answer)["document_id"]
    await either.read()
    for name, expected in {"photo.png": "640x480", "letter.pdf": samples.PROSE[0]}.items():
        status = (await either.call("GET", f"documents/{ids[name]}", user=user)).json()
        assert (status["ocr_status"], status["seconds_left"]) == ("completed", None)
        text = await either.call("GET", f"documents/{ids[name]}/export", user=user)
        assert expected in text.text
    path = f"documents/{ids['letter.pdf']}"
    again = await either.post(f"{path}/read-again", user=user, json={"language": "en"})
    assert (again.status_code, again.json()["ocr_status"]) == (202, "queued_for_pdf")
    cancelled = await either.post(f"{path}/cancel", user=user)
    assert cancelled.status_code == 200
    # The text of the first reading is still there.
    assert samples.PROSE[0] in (await either.call("GET", f"{path}/export", user=user)).text
    assert (await either.call("DELETE", path, user=user)).status_code == 200
    assert (await either.call("GET", f"{path}/export", user=user)).status_code == 404
    assert (await either.post(f"{path}/restore", user=user)).status_code == 200
    assert (await either.call("GET", f"{path}/export", user=user)).status_code == 200


async def test_the_client_of_supabase_is_told_why_something_is_refused(either: House) -> None:
    """Its error has our code."""
    async with _client(either.url, await either.factory.user()) as client:
        with pytest.raises(supabase.FunctionsHttpError, match="EMPTY_FILE"):
            await client.functions.invoke(
                "upload-to-dropbox", {"body": b"", "headers": {"X-File-Name": "nothing.png"}}
            )
