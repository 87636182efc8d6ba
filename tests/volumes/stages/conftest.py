"""A volume that went through all stages once, and copies of it to spoil."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pagewarden.volumes import stages
from tests.storage import s3_server
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def moto() -> Iterator[s3_server.S3Server]:
    """Run the one S3 of these tests."""
    with s3_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> books.Book:
    """Have a volume that nobody may change."""
    book = books.make(tmp_path_factory.mktemp("finished"))
    books.run_sync(book, *stages.STAGES)
    return book


@pytest.fixture
def copied(finished: books.Book, tmp_path: Path) -> books.Book:
    """Have the same volume for oneself."""
    root = tmp_path / "copied"
    shutil.copytree(finished.root, root)
    return replace(finished, root=root)


@pytest.fixture
def book(tmp_path: Path) -> books.Book:
    """Have a volume on which nobody has worked yet."""
    return books.make(tmp_path / "book")
