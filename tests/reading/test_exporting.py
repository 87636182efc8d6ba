"""Exports that a child makes of the original."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from pagewarden.reading import exporting, reader
from tests.reading import samples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PATIENCE = 30.0


async def test_an_export_waits_for_whoever_takes_it_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child stays until its work was taken, for its folder goes with it."""
    source = tmp_path / "letter.pdf"
    source.write_bytes(samples.text_pdf(samples.PROSE))
    asked, go = threading.Event(), threading.Event()
    take_over = exporting._take_over  # noqa: SLF001  # somebody has to stand in between

    def take_over_late(*where: Any) -> None:
        asked.set()
        assert go.wait(PATIENCE)
        take_over(*where)

    monkeypatch.setattr(exporting, "_take_over", take_over_late)
    async with reader.Reader(engine="null", processes=2) as reading:
        with reading.spool() as spool:
            async for page in reading.read(source):
                spool.add(page)
            export = exporting.Export("pdf", spool, source, "letter.pdf")
            target = tmp_path / "out.pdf"
            exporting_ = asyncio.create_task(reading.export(export, target))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            # Whatever has ended until now is buried before this one is.
            assert [page.number async for page in reading.read(source)] == [1]
            go.set()
            await exporting_
    assert target.read_bytes().startswith(b"%PDF")
