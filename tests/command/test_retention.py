"""pagewarden retention: as an operator types it."""

from __future__ import annotations

import asyncio
import json
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
    assert "would go" in shown
    assert {name: gone[name] for name in ("documents", "purged", "erased_jobs")} == {
        "documents": 1,
        "purged": 1,
        "erased_jobs": 1,
    }
    assert gone["erased"] == 3
    assert set(json.loads(await typed("--dry-run", "--json")).values()) == {0}
