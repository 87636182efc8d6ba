"""Jobs are listed, found and re-run while their volumes change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pagewarden import errors
from pagewarden.database import client
from pagewarden.volumes import jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database import Database
    from pagewarden.database.table import Table
    from tests.volumes import house

Row = TypeVar("Row")


class _Meanwhile(client.Client):
    """A database that changes after every call."""

    def __init__(self, database: Database, change: Callable[[], Awaitable[object]]) -> None:
        self._database, self._change = database, change

    async def rpc(self, name: str, /, **params: object) -> Any:
        answer = await self._database.rpc(name, **params)
        await self._change()
        return answer

    async def select(self, table: Table[Row], **params: Any) -> list[Row]:
        return await self._database.select(table, **params)


@pytest.fixture
def moving(home: house.House, monkeypatch: pytest.MonkeyPatch) -> jobs.JobRepository:
    """Return jobs whose volumes change stage between two pages of a list."""
    monkeypatch.setattr(jobs, "_PAGE_SIZE", 2)
    return jobs.JobRepository(_Meanwhile(home.service, home.orchestrator.step))  # type: ignore[arg-type]


async def test_a_list_has_every_volume_despite_changes(
    home: house.House, moving: jobs.JobRepository
) -> None:
    """A volume whose rank changes is not skipped."""
    job = await home.order(*(f"W1-I{n}" for n in range(5)))
    rows = await moving.list_tasks(job)
    assert {row["bdrc_i_id"] for row in rows} == {f"I{n}" for n in range(5)}
    assert len(rows) == 5


async def test_a_list_has_failed_volumes_first(home: house.House) -> None:
    """Then those in progress, in order."""
    job = await home.order("W1-I1", "W1-I2", "W1-I3")
    await home.conn.execute(
        "update volume_tasks set current_stage = 'ocr', status = 'failed', attempts = 3 "
        "where id = (select max(id) from volume_tasks)"
    )
    rows = await jobs.JobRepository(home.service).list_tasks(job)
    assert [row["bdrc_i_id"] for row in rows] == ["I3", "I1", "I2"]


async def test_volumes_are_found_by_name_despite_changes(
    home: house.House, moving: jobs.JobRepository
) -> None:
    """Volumes of the same name in other jobs are not affected."""
    await home.order("W1-I3")
    job = await home.order(*(f"W1-I{n}" for n in range(5)))
    names = [jobs.VolumeName("W1", "I3"), jobs.VolumeName("W1", "I4")]
    assert await moving.rerun(job, "line_detection", volumes=names) == (2, 0)
    again = await home.rows(
        "select t.job_id, v.bdrc_i_id from volume_tasks as t join volumes as v "
        "on v.id = t.volume_id where t.forced_stage = 'line_detection' order by 2"
    )
    assert again == [(job, "I3"), (job, "I4")]


async def test_a_volume_that_the_job_does_not_have_is_refused(home: house.House) -> None:
    """Whether it does not exist, or belongs to another job."""
    await home.order("W1-I2")
    job = await home.order("W1-I1")
    found = jobs.JobRepository(home.service)
    names = [jobs.VolumeName("W1", name) for name in ("I1", "I2", "I3")]
    with pytest.raises(errors.InvalidArgument, match=r"no volume W1-I2, W1-I3$"):
        await found.rerun(job, "ocr", volumes=names)
    with pytest.raises(errors.InvalidArgument, match=r"no volume W1-I3$"):
        await found.rerun(job, "ocr", volumes=names[2:])
