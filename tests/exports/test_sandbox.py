"""Exports that a child makes of the original."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from pagewarden.exports import sandbox
from pagewarden.ocr import reader
from tests.ocr import samples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PATIENCE = 30.0


async def test_an_export_waits_for_whoever_takes_it_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child stays until its work was taken, for its folder goes with it."""
    source = tmp_path / "letter.pdf"
    source.write_bytes(samples.make_text_pdf(samples.PROSE))
    asked, go = threading.Event(), threading.Event()
    copy_result = sandbox._copy_result  # noqa: SLF001  # somebody has to stand in between

    def copy_late(*where: Any) -> None:
        asked.set()
        assert go.wait(PATIENCE)
        copy_result(*where)

    monkeypatch.setattr(sandbox, "_copy_result", copy_late)
    async with reader.Reader(engine="null", processes=2) as reading:
        with sandbox.open_spool(reading) as spool:
            async for page in reading.read(source):
                spool.add(page)
            export = sandbox.ExportJob("pdf", spool, source, "letter.pdf")
            target = tmp_path / "out.pdf"
            exporting_ = asyncio.create_task(sandbox.write_export(reading, export, target))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            # Whatever has ended until now is buried before this one is.
            assert [page.number async for page in reading.read(source)] == [1]
            go.set()
            await exporting_
    assert target.read_bytes().startswith(b"%PDF")
