"""Workers and orchestrators are killed at any moment; every volume ends as if nothing had been."""

from __future__ import annotations

import functools

import pytest

from pagewarden.volumes import stages
from tests.volumes import house, program, siege

SEED = 20261117


def _programs(home: house.House, workers: int) -> list[program.Orders]:
    roles = ["worker"] * workers + ["orchestrator"] * 2
    return [
        program.Orders(role, f"{role}-{n}", home.worker_url, str(home.output))
        for n, role in enumerate(roles)
    ]


async def _undisturbed(home: house.House, names: list[str]) -> dict[str, str]:
    """Have the same volumes read in peace, and give their artifacts as those of the other job."""
    await home.order(*names, p_job_key="peace")
    await home.work(home.worker())
    return {
        path.replace("jobs/peace", "jobs/war"): digest
        for path, digest in house.artifacts_of(home.output).items()
    }


@pytest.mark.parametrize(
    ("volumes", "deaths", "pause"),
    [(6, 12, 0.3), pytest.param(40, 50, 0.6, marks=pytest.mark.long)],
    ids=["short", "long"],
)
async def test_nothing_is_lost_doubled_or_mixed(
    home: house.House, volumes: int, deaths: int, pause: float
) -> None:
    """With messages twice, late, in wrong queues; with artifacts equal to an undisturbed run's."""
    names = [f"W{n}-I{n}" for n in range(volumes)]
    expected = await _undisturbed(home, names)
    job = await home.order(*names, p_job_key="war")

    async def is_over() -> bool:
        query = f"select status <> 'running' from volume_jobs where id = {job}"
        return await home.rows(query) == [(True,)]

    async with siege.laid(_programs(home, workers=3), SEED) as laid:
        await siege.storm(
            laid,
            deaths=deaths,
            pause=pause,
            mix_up=functools.partial(siege.mix_up, home.conn),
            is_over=is_over,
        )

    assert await home.rows(f"select status from volume_jobs where id = {job}") == [("completed",)]
    assert await home.tasks("current_stage", "status") == [("done", "done")] * 2 * volumes
    made = house.artifacts_of(home.output)
    assert {path: digest for path, digest in made.items() if "/war/" in path} == expected
    await _was_done_by_owners(home, job)
    assert await home.violations() == []
    deaths_seen = await home.rows("select count(*) from volume_runs where outcome = 'lost'")
    print(f"{laid.deaths} programs killed; turns lost: {deaths_seen}")  # noqa: T201


async def _was_done_by_owners(home: house.House, job: int) -> None:
    """See that whoever wrote an artifact is the one whose turn counts as done, once per stage."""
    rows = await home.rows(
        f"""
        select 'jobs/war/volumes/' || v.bdrc_w_id || '-' || v.bdrc_i_id || '/', r.stage,
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
