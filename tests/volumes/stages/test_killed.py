"""A stage killed at any moment: whoever does it again makes what an undisturbed run makes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.volumes.stages import books

def say(*words):
    print(*words, flush=True)
    sys.stdin.readline()

async def fence():
    say("publish")

book = books.Book(Path(sys.argv[1]))
asyncio.run(book.run(sys.argv[2], progress=lambda *_: say("page"), may_publish=fence))
"""
MOMENTS = [
    ("line_detection", ("page",)),
    ("line_detection", ("page", "page", "page", "publish", "publish")),
    ("line_extraction", ("page", "page")),
    ("line_extraction", ("page", "page", "page", "publish", "publish")),
    ("ocr", ("page", "page", "page", "publish")),
]


@pytest.mark.parametrize(("stage", "moments"), MOMENTS)
async def test_whatever_a_killed_worker_leaves_the_next_one_makes_it_whole(
    copied: books.Book, stage: str, moments: tuple[str, ...]
) -> None:
    """Killed before it publishes, among its images, and before its Parquet file."""
    undisturbed = copied.digests()
    shutil.rmtree(copied.artifacts / stage)
    _run_and_kill(copied.root, stage, moments)
    assert not (copied.artifacts / stage / books.PARQUET[stage]).exists()
    await copied.run(stage)
    assert copied.digests() == undisturbed


def _run_and_kill(root: Path, stage: str, moments: tuple[str, ...]) -> None:
    """Run a stage as a program of its own, from moment to moment, and kill it at the last one."""
    program = [sys.executable, "-c", PROGRAM, str(root), stage]
    with subprocess.Popen(program, stdin=-1, stdout=-1, text=True, bufsize=1) as running:
        assert running.stdout
        assert running.stdin
        for number, moment in enumerate(moments, 1):
            assert running.stdout.readline() == f"{moment}\n"
            if number < len(moments):
                running.stdin.write("\n")
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
