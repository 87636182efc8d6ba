"""Signed URLs of files: they open one file, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from pagewarden.storage import signed_urls
from tests.functions import house

if TYPE_CHECKING:
    from tests.functions.house import House


async def _signed(functions: House) -> str:
    """Upload something, and have its URL without the host."""
    await functions.upload(await functions.factory.user(), house.PNG, "ein Bild.png")
    (document,) = await functions.documents()
    url = await functions.used.store.create_signed_url(document["dropbox_path"], 60)
    assert url is not None
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


async def test_a_signed_url_opens_its_file_without_a_key(functions: House) -> None:
    """The bytes come as something that no browser shows."""
    answer = await functions.session.get(await _signed(functions))
    assert (answer.status_code, answer.content) == (200, house.PNG)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("signature=", "signature=0"),
        ("expires=", "expires=9"),
        ("ein%20Bild", "ein%20Bilt"),
        ("/files/v1/", "/files/v1/../v1/x/"),
    ],
)
async def test_a_changed_url_opens_nothing(functions: House, old: str, new: str) -> None:
    """Whichever part was changed."""
    url = await _signed(functions)
    assert (await functions.session.get(url.replace(old, new))).status_code == 403


async def test_an_old_url_opens_nothing(functions: House) -> None:
    """It counts as long as it says."""
    await _signed(functions)
    (document,) = await functions.documents()
    signer = signed_urls.make_store_signer(functions.used.settings)
    assert signer is not None
    key = functions.used.settings.files_signing_key
    assert key is not None
    past = signed_urls.UrlSigner(
        "http://x/files/v1", key.get_secret_value(), now=lambda: 1_000_000.0
    )
    parts = urlsplit(past.make_url(document["dropbox_path"], 60))
    assert (await functions.session.get(f"{parts.path}?{parts.query}")).status_code == 403


async def test_a_file_that_is_gone_says_so(functions: House) -> None:
    """404, and not an empty file."""
    url = await _signed(functions)
    functions.stored()[0].unlink()
    assert (await functions.session.get(url)).status_code == 404


async def test_a_url_without_signature_is_refused(functions: House) -> None:
    """400: it is no such URL at all."""
    url = await _signed(functions)
    assert (await functions.session.get(url.split("?")[0])).status_code == 400
