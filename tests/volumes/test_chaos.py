"""Workers and orchestrators are killed at random; results equal those of an undisturbed run."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pagewarden.volumes import stages
from tests.ocr import printed
from tests.support import polling
from tests.volumes import chaos, house, program
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20261117
VOLUMES = 12
PAGES = 4


def _programs(home: house.House, workers: int) -> list[program.Orders]:
    roles = ["worker"] * workers + ["orchestrator"] * 2
    return [
        program.Orders(role, f"{role}-{n}", home.worker_url, str(home.output))
        for n, role in enumerate(roles)
    ]


async def _undisturbed(home: house.House, names: list[str]) -> dict[str, str]:
    """Read the same volumes without kills; return their artifacts by the other job's keys."""
    await home.order(*names, job_key="undisturbed")
    await home.work(home.worker())
    return {
        path.replace("jobs/undisturbed", "jobs/chaos"): digest
        for path, digest in house.artifacts_of(home.output).items()
    }


@pytest.mark.parametrize(
    ("volumes", "kills", "pause"),
    [(6, 12, 0.3), pytest.param(40, 50, 0.6, marks=pytest.mark.long)],
    ids=["short", "long"],
)
async def test_killed_programs_lose_duplicate_and_mix_nothing(
    home: house.House, volumes: int, kills: int, pause: float
) -> None:
    """Messages arrive twice, late or in other queues; artifacts equal an undisturbed run's."""
    names = [f"W{n}-I{n}" for n in range(volumes)]
    expected = await _undisturbed(home, names)
    job = await home.order(*names, job_key="chaos")

    async with chaos.start_programs(_programs(home, workers=3), SEED) as programs:
        await chaos.kill_repeatedly(
            programs,
            kills=kills,
            pause=pause,
            mix_up=functools.partial(chaos.mix_up, home.conn),
            is_over=functools.partial(_is_over, home, job),
        )

    assert await home.rows(f"select status from volume_jobs where id = {job}") == [("completed",)]
    assert await home.tasks("current_stage", "status") == [("done", "done")] * 2 * volumes
    made = house.artifacts_of(home.output)
    assert {path: digest for path, digest in made.items() if "/chaos/" in path} == expected
    await _require_valid_owners(home, job)
    assert await home.violations() == []
    lost = await home.rows("select count(*) from volume_runs where outcome = 'lost'")
    print(f"{programs.kills} programs killed; attempts lost: {lost}")  # noqa: T201


@pytest.mark.long
async def test_killed_programs_with_real_stages(
    home: house.House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 50 kills, Parquet files and images equal those of an undisturbed run."""
    monkeypatch.setattr(chaos, "TIMEOUT_SECONDS", 600.0)
    names = [f"W{n}-I{n}" for n in range(VOLUMES)]
    pages = [books.TEXTS[n % len(books.TEXTS)] for n in range(PAGES)]
    for name in names:
        for number, lines in enumerate(pages):
            folder = tmp_path / "input" / name
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(printed.page(lines).pixels).save(folder / f"{number}.png")
    given = {"language": "eng", "processes": 1}
    orders = [
        dataclasses.replace(
            each, input=str(tmp_path / "input"), lock_seconds=6, heartbeat_seconds=1
        )
        for each in _programs(home, workers=3)
    ]
    job = await home.order(*names, job_key="book", config=given)
    async with chaos.start_programs(orders, SEED):
        await polling.wait_until(functools.partial(_is_over, home, job), seconds=600)
    expected = _files(home.output)

    # Files contain the job key, so both jobs have the same.
    await home.conn.execute("delete from volume_jobs")
    await asyncio.to_thread(shutil.rmtree, home.output / "jobs")
    job = await home.order(*names, job_key="book", config=given)
    async with chaos.start_programs(orders, SEED) as programs:
        await chaos.kill_repeatedly(
            programs,
            kills=50,
            pause=3.0,
            mix_up=functools.partial(chaos.mix_up, home.conn),
            is_over=functools.partial(_is_over, home, job),
        )

    assert await home.tasks("current_stage", "status") == [("done", "done")] * VOLUMES
    assert _files(home.output) == expected
    assert await home.violations() == []
    ends = await home.rows(
        f"select outcome, count(*) from volume_runs where job_id = {job} group by 1 order by 1"
    )
    print(f"{programs.kills} programs killed; {len(expected)} files equal; attempts: {ends}")  # noqa: T201


async def _is_over(home: house.House, job: int) -> bool:
    query = f"select status <> 'running' from volume_jobs where id = {job}"
    return await home.rows(query) == [(True,)]


def _files(output: Path) -> dict[str, str]:
    """Return the hashes of all published files."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((output / "jobs").rglob("*"))
        if path.is_file()
    }


async def _require_valid_owners(home: house.House, job: int) -> None:
    """Check that each artifact was written by the one attempt that completed its stage."""
    rows = await home.rows(
        f"""
        select 'jobs/chaos/volumes/' || v.bdrc_w_id || '-' || v.bdrc_i_id || '/', r.stage,
          array_agg(r.token::text)
        from volume_runs r join volume_tasks t on t.id = r.task_id
        join volumes v on v.id = t.volume_id
        where r.job_id = {job} and r.outcome = 'done' group by 1, 2
        """
    )
    written = house.owners_of(home.output)
    assert len(rows) == len(stages.STAGES) * len({path.split("/")[3] for path in written})
    for folder, stage, tokens in rows:
        (path,) = [p for p in written if p.startswith(f"{folder}{stage}/")]
        assert [written[path]] == [set(tokens)], path
