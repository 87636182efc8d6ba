"""The functions as hosted Supabase shows them: through the relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from tests.functions import house
from tests.support import deno

if TYPE_CHECKING:
    from tests.functions.house import House


async def test_an_upload_through_the_relay_becomes_a_document(functions: House) -> None:
    """A form goes in, its status comes out, and whoever is not signed in is told so."""
    user = await functions.factory.user()
    person = {"Authorization": f"Bearer {house.token(user)}"}
    async with (
        deno.run_relay(functions.url) as relay,
        httpx.AsyncClient(base_url=f"{relay.url}/functions/v1", timeout=20) as client,
    ):
        form = {"file": ("scan.pdf", house.PDF)}
        accepted = await client.post("/upload-to-dropbox", files=form, headers=person)
        document_id = accepted.json()["document_id"]
        status = await client.get(f"/documents/{document_id}", headers=person)
        stranger = await client.get(f"/documents/{document_id}")
    assert (accepted.status_code, status.json()["name"]) == (202, "scan.pdf")
    assert (stranger.status_code, stranger.json()["error"]) == (401, "NOT_SIGNED_IN")
    (stored,) = functions.stored()
    assert stored.read_bytes() == house.PDF
