"""pagewarden retention: as an operator types it."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from typing import TYPE_CHECKING

from typer import testing

from pagewarden import cli
from tests.database import factories

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support import databases


async def typed(*words: str) -> str:
    """Type a command, and give what it said."""
    result = await asyncio.to_thread(
        testing.CliRunner().invoke, cli.app, ["retention", *words], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


async def test_a_dry_run_says_what_would_go_and_then_it_goes(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts agree, and afterwards there is nothing left to do."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", database.url())
    monkeypatch.setenv("PAGEWARDEN_FILES", str(tmp_path / "files"))
    monkeypatch.setenv("PAGEWARDEN_BIN_DAYS", "30")
    factory = await factories.Factory.of(database)
    document = await factory.completed()
    await factory.call("delete_document", p_document_id=document)
    await factory.conn.execute("update documents set deleted_at = now() - interval '31 days'")
    job = await factory.check_job()
    await factory.call("cancel_check_job", p_job_id=job)
    await factory.conn.execute("update check_jobs set ended_at = now() - interval '40 days'")

    told = json.loads(await typed("--dry-run", "--json"))
    again = json.loads(await typed("--dry-run", "--json"))
    shown = await typed("--dry-run")
    gone = json.loads(await typed("--json"))

    assert (told["documents"], told["purged"], told["erased_jobs"]) == (1, 1, 1)
    assert told == again
    assert "would remove" in shown
    assert {name: gone[name] for name in ("documents", "purged", "erased_jobs")} == {
        "documents": 1,
        "purged": 1,
        "erased_jobs": 1,
    }
    assert gone["erased"] == 3
    left = json.loads(await typed("--dry-run", "--json"))
    assert left.pop("unknown") == []
    assert set(left.values()) == {0}


async def test_files_without_a_row_are_listed_and_never_deleted(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new database beside an existing store: all originals stay."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", database.url())
    monkeypatch.setenv("PAGEWARDEN_FILES", str(tmp_path / "files"))
    stored = [tmp_path / f"files/{uuid.uuid4()}/{uuid.uuid4()}/{n}.png" for n in range(22)]
    for path in stored:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"scan")
        os.utime(path, (0, 0))

    shown = await typed()
    told = json.loads(await typed("--json"))

    assert all(path.read_bytes() == b"scan" for path in stored)
    assert "Not removed: 22 files (88 bytes) belonging to no document" in shown
    assert "1970-01-01 00:00" in shown
    assert "and 2 more" in shown
    assert "PAGEWARDEN_FILES belong together" in shown
    assert (told["unknown_files"], told["unknown_bytes"]) == (22, 88)
    paths = {str(path.relative_to(tmp_path / "files")) for path in stored}
    assert {entry["path"] for entry in told["unknown"]} == paths
