"""The benchmark of large uploads, with a smaller file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pikepdf

from benchmarks import uploads

if TYPE_CHECKING:
    from pathlib import Path


def test_memory_does_not_grow_with_the_upload() -> None:
    """Neither in the server nor in the client; a wrong digest is refused."""
    small, large = uploads.run(150)
    grown = (large.megabytes - small.megabytes) * uploads.MB
    assert large.server - small.server < grown / 4
    assert large.client - small.client < grown / 4


def test_written_pdf_is_valid(tmp_path: Path) -> None:
    """It has one page, and the size that was asked for."""
    path = tmp_path / "a.pdf"
    uploads.write_pdf(path, 3 * uploads.MB)
    with pikepdf.open(path) as pdf:
        assert len(pdf.pages) == 1
        assert pdf.check_pdf_syntax() == []
    assert 3 * uploads.MB <= path.stat().st_size < 5 * uploads.MB
