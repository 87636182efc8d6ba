"""Documents are read by the GPU service; after a crash they resume at the page reached."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pydantic
import pytest

from pagewarden import errors, settings, storage
from pagewarden.database import tables
from pagewarden.documents import claim, gpu_reader
from pagewarden.documents.claim import ReadOptions
from tests.database import queries
from tests.documents.test_reader import keep
from tests.gpu_service import harness
from tests.ocr import drawn
from tests.storage import stores
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.storage import FileStore
    from tests.documents import readers

KEY = "sb_secret_of_a_test_that_is_long_enough_for_it"
PAGES = 100


@dataclass(frozen=True, slots=True)
class Program:
    """A GPU service in its own process."""

    process: asyncio.subprocess.Process
    url: str
    session: httpx.AsyncClient

    async def ends(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        async with asyncio.timeout(20):
            return await self.process.wait()


def free_port() -> int:
    """Find a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.asynccontextmanager
async def started(home: Path, port: int) -> AsyncIterator[Program]:
    """Start it as an operator does, and wait until it is ready."""
    url = f"http://127.0.0.1:{port}"
    own = {
        "PAGEWARDEN_SUPABASE_KEY": KEY,
        "PAGEWARDEN_HOME": str(home),
        "PAGEWARDEN_GPU_SERVICE_URL": url,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pagewarden.gpu_service",
        "--engine",
        "null",
        env=os.environ | own,
        cwd=home,
    )
    try:
        async with httpx.AsyncClient(base_url=url) as session:
            await harness.wait_until_ready(session)
            yield Program(process, url, session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    """Have a store on this disk."""
    async with storage.open_store(settings.Settings(files=str(tmp_path / "files"))) as opened:
        yield opened


def reading(
    url: str, store: FileStore, **changes: Any
) -> contextlib.AbstractAsyncContextManager[gpu_reader.GpuReader]:
    """Have the reader that the settings ask for."""
    chosen = settings.Settings(
        gpu_service_url=pydantic.HttpUrl(url), supabase_key=pydantic.SecretStr(KEY), **changes
    )
    return gpu_reader.open_gpu_reader(chosen, store)


async def test_a_killed_service_costs_no_attempt_and_no_page(
    desk: readers.Desk, store: FileStore, tmp_path: Path
) -> None:
    """What was saved stays, the lane pauses, and the next service reads the rest alone."""
    document = await keep(store, desk, drawn.numbered(PAGES))
    port = free_port()
    async with started(tmp_path, port) as first, reading(first.url, store) as reader:
        draining = asyncio.create_task(desk.drain(reader))
        await polling.wait_until(lambda: _has_saved(desk, 3))
        assert await first.ends(signal.SIGKILL) == -signal.SIGKILL
        assert await draining == {"given_back": 1}
        row = await desk.row(document)
        assert (row["ocr_status"], row["attempts"], row["retry_count"]) == ("queued", 0, 0)
        saved = await _saved(desk)
        assert 3 <= saved < PAGES
        (lane,) = await desk.link.select(tables.lanes, where={"lane": "image"})
        assert "check that it is running" in (lane["pause_reason"] or "")

        async with started(tmp_path, port) as second:
            await desk.factory.call("resume_lane", p_lane="image")
            assert await desk.drain(reader) == {"completed": 1}
            service = harness.RunningService(second.url, second.session)
            assert await service.metric("pagewarden_gpu_pages_total") == PAGES - saved
            assert await second.ends(signal.SIGTERM) == 0
    assert await _saved(desk) == PAGES
    assert (await desk.row(document))["page_count"] == PAGES
    assert await queries.violations(desk.factory.conn) == []


async def _saved(desk: readers.Desk) -> int:
    return len(await desk.link.select(tables.ocr_pages, columns="page_number"))


async def _has_saved(desk: readers.Desk, count: int) -> bool:
    return await _saved(desk) >= count


async def test_a_document_is_read_as_it_wishes(desk: readers.Desk, store: FileStore) -> None:
    """Language and profile go along; a wish that cannot be met fails its document alone."""
    async with (
        harness.start_ready_service(key=KEY) as service,
        reading(service.url, store) as reader,
    ):
        await keep(store, desk, drawn.document("languages"), language="fr-CA", profile="fast")
        lost = await keep(store, desk, drawn.document("white"), engine="nope")
        too_large = await keep(store, desk, b"x" * (harness.MAX_BYTES + 1))
        gone = await keep(store, desk, drawn.document("white"))
        await store.delete((await desk.row(gone))["dropbox_path"].lstrip("/"))
        assert await desk.drain(reader) == {"completed": 1, "failed": 3}

    (page,) = await desk.link.select(tables.ocr_pages)
    assert (page["text"], page["language"]) == ("eng fra", "fr")  # one of the test line
    (run,) = await desk.link.select(tables.ocr_runs, where={"document_id": page["document_id"]})
    assert (run["engine"], run["engine_version"], run["profile"]) == ("fake", "1", "fast")
    assert "choose one of" in (await desk.row(lost))["ocr_error"]
    assert str(harness.MAX_BYTES) in (await desk.row(too_large))["ocr_error"]
    assert "there is no file" in (await desk.row(gone))["ocr_error"]


async def test_a_service_that_reaches_the_store_fetches_files_itself(tmp_path: Path) -> None:
    """It is sent a signed URL, and refuses one that it was not set up for."""
    (tmp_path / "scan.tif").write_bytes(drawn.numbered(2))
    with stores.serve_folder(tmp_path) as folder:
        async with (
            storage.open_store(folder.settings) as store,
            harness.start_ready_service(key=KEY, store_urls=(folder.url,)) as service,
            reading(service.url, store, gpu_fetches_files=True) as reader,
        ):
            pages = [page async for page in reader.read(_claim(), frozenset({1}))]
            assert [(page.number, page.of) for page in pages] == [(2, 2)]
        async with (
            storage.open_store(folder.settings) as store,
            harness.start_ready_service(key=KEY) as service,
            reading(service.url, store, gpu_fetches_files=True) as reader,
        ):
            with pytest.raises(errors.EngineUnavailable, match="PAGEWARDEN_FILES"):
                await anext(reader.read(_claim(), frozenset()))


async def test_a_service_set_up_wrongly_is_an_outage(store: FileStore) -> None:
    """With another key, or without the engine that this worker usually has."""
    async with (
        harness.start_ready_service(key="another key") as service,
        reading(service.url, store) as reader,
    ):
        with pytest.raises(errors.EngineUnavailable, match="rejected the key"):
            await reader.get_run(_claim())
    async with harness.start_ready_service() as service, service.client() as client:
        wishing = gpu_reader.GpuReader(store, client, options=ReadOptions("fake-remote"))
        with pytest.raises(errors.EngineUnavailable, match="choose one of"):
            await wishing.get_run(_claim())


async def test_pages_of_two_versions_never_mix(store: FileStore, tmp_path: Path) -> None:
    """A service that was replaced after the run was named gives no page of it."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "scan.tif").write_bytes(drawn.numbered(2))
    async with (
        harness.start_ready_service() as before,
        harness.start_ready_service(engine="null") as after,
        before.client() as client,
    ):
        reader = gpu_reader.GpuReader(store, client)
        assert await reader.get_run(_claim()) == claim.ReadingRun("fake", "1")
        client._http.base_url = httpx.URL(after.url)  # noqa: SLF001  # behind one address
        with pytest.raises(errors.EngineUnavailable, match="now reads with null 1"):
            await anext(reader.read(_claim(), frozenset()))
        assert await reader.get_run(_claim()) == claim.ReadingRun("null", "1")
        found = [page.number async for page in reader.read(_claim(), frozenset({1}))]
        assert found == [2]


async def test_without_its_url_there_is_no_such_reader(store: FileStore) -> None:
    """The message names the setting."""
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_GPU_SERVICE_URL"):
        async with gpu_reader.open_gpu_reader(settings.Settings(), store):
            pass


def _claim() -> claim.Claim:
    return claim.Claim("1", "token", "scan", "pdf", "scan.tif", None, None, None, 1)
