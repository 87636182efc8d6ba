"""Which function reads a document, and with which reader."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import HttpUrl, SecretStr

from pagewarden import settings
from pagewarden.documents import claim, gpu_reader, routing
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.reader import LocalReader, open_lane_reader
from tests.documents import readers, test_gpu_reader
from tests.documents.test_reader import FAKE, WHITE, keep, scratch, store, tiff
from tests.functions import house

if TYPE_CHECKING:
    from pagewarden.storage import FileStore

__all__ = ["scratch", "store"]


async def make_claim(store: FileStore, content: bytes | None, **changes: Any) -> claim.Claim:
    """Claim a document of the registry, whose file is stored unless it has none."""
    path = f"registry/{uuid.uuid4()}"
    if content is not None:

        async def chunks() -> Any:
            yield content

        await store.write(path, chunks())
    usual: dict[str, Any] = {"id": "1", "lock_token": "2", "name": "1874-23", "lane": "acte"}
    options: dict[str, Any] = {"engine": None, "language": None, "profile": None, "attempts": 1}
    return claim.Claim(**usual | options | {"path": path} | changes)


@pytest.mark.parametrize(
    ("content", "changes", "function"),
    [
        (house.PDF, {}, "pdf-extract"),
        (house.PNG, {}, "ocr-universal"),
        (house.PDF, {"name": "scan.png"}, "pdf-extract"),  # content decides, not the name
        (None, {"mime_type": "application/pdf"}, "pdf-extract"),
        (None, {"mime_type": "image/png"}, "ocr-universal"),
        (None, {"name": "ACTE.PDF"}, "pdf-extract"),  # the file may arrive later
        (None, {}, "ocr-universal"),
        (house.PNG, {"lane": "pdf"}, "pdf-extract"),
        (house.PDF, {"lane": "image"}, "ocr-universal"),
        (house.PDF, {"lane": "check"}, "ocr-universal"),
    ],
)
async def test_the_lane_decides_and_in_the_registry_the_file(
    store: FileStore, content: bytes | None, changes: dict[str, Any], function: str
) -> None:
    """By type, by first bytes, by name, in this order."""
    made = await make_claim(store, content, **changes)
    assert await routing.find_function(made, store) == function


async def test_pdfs_of_the_registry_are_read_by_the_gpu_service(
    store: FileStore, desk: readers.Desk
) -> None:
    """Like others; images and remote engines are read locally."""
    chosen = settings.Settings(
        gpu_service_url=HttpUrl("http://127.0.0.1:9"), supabase_key=SecretStr(test_gpu_reader.KEY)
    )
    async with open_lane_reader(chosen, store, desk.link, options=ReadOptions("null")) as reader:
        for content, changes, kind in (
            (house.PDF, {}, gpu_reader.GpuReader),
            (house.PNG, {}, LocalReader),
            (house.PDF, {"engine": "gemini"}, LocalReader),
        ):
            made = await make_claim(store, content, **changes)
            assert type(await reader.select_reader(made)) is kind


@pytest.mark.usefixtures("scratch")
async def test_a_disabled_function_gives_its_documents_of_the_registry_back(
    store: FileStore, desk: readers.Desk
) -> None:
    """Uncounted and for later; the lane goes on with the other kind of file."""
    image = await keep(store, desk, tiff(WHITE), lane="index")
    pdf = await keep(store, desk, house.READABLE_PDF, lane="index")
    await desk.factory.conn.execute(
        "update edge_function_config set enabled = false where function_name = 'ocr-universal'"
    )
    async with open_lane_reader(
        settings.Settings(), store, desk.link, options=FAKE, processes=1
    ) as reader:
        worker = desk.worker(readers.Recorder(), lanes=["index"])
        outcomes = await dataclasses.replace(worker, reader=reader).drain(asyncio.Event())
    assert outcomes == {"completed": 1, "given_back": 1}
    row = await desk.row(image)
    assert (row["ocr_status"], row["attempts"], row["retry_at"] is None) == ("queued", 0, False)
    assert (await desk.row(pdf))["ocr_status"] == "completed"
    lanes = await desk.factory.conn.execute("select lane from lanes where is_disabled")
    assert sorted(await lanes.fetchall()) == [("check",), ("image",)]
