"""Private temporary folders."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden.storage import scratch

if TYPE_CHECKING:
    import pytest


def test_folder_is_private_and_removed_after_use() -> None:
    """With its content."""
    with scratch.open_private_folder() as folder:
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").write_bytes(b"secret")
    assert not folder.exists()


def test_folders_of_killed_processes_are_removed_but_not_those_of_running_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No document remains on the disk after a worker was killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    running, used = _start_holder(tmp_path)
    killed, abandoned = _start_holder(tmp_path)
    with running, killed:
        killed.kill()
        killed.wait()
        assert abandoned.exists()
        with scratch.open_private_folder():
            assert not abandoned.exists()
            assert (used / "file").read_bytes() == b"secret"
    assert list(tmp_path.iterdir()) == []


def _start_holder(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that keeps a folder with a file until its input ends."""
    program = (
        "import sys; from pagewarden.storage import scratch\n"
        "with scratch.open_private_folder() as folder:\n"
        "    (folder / 'file').write_bytes(b'secret'); print(folder, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={"TMPDIR": str(base)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())
