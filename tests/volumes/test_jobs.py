"""Jobs as programs see them, while their volumes go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pagewarden import errors
from pagewarden.volumes import jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database import Database
    from pagewarden.database.table import Table
    from tests.volumes import house

Row = TypeVar("Row")


class _Meanwhile:
    """A database in which something happens after every answer."""

    def __init__(self, database: Database, happens: Callable[[], Awaitable[object]]) -> None:
        self._database, self._happens = database, happens

    async def rpc(self, name: str, /, **params: object) -> Any:
        answer = await self._database.rpc(name, **params)
        await self._happens()
        return answer

    async def select(self, table: Table[Row], **params: Any) -> list[Row]:
        return await self._database.select(table, **params)


@pytest.fixture
def moving(home: house.House, monkeypatch: pytest.MonkeyPatch) -> jobs.Jobs:
    """Have jobs whose volumes move on from one page of a list to the next."""
    monkeypatch.setattr(jobs, "_PAGE", 2)
    return jobs.Jobs(_Meanwhile(home.service, home.orchestrator.look))  # type: ignore[arg-type]


async def test_a_list_has_every_volume_whatever_happens_meanwhile(
    home: house.House, moving: jobs.Jobs
) -> None:
    """One that comes to another place in the order of people is not passed by."""
    job = await home.order(*(f"W1-I{n}" for n in range(5)))
    rows = await moving.tasks(job)
    assert {row["bdrc_i_id"] for row in rows} == {f"I{n}" for n in range(5)}
    assert len(rows) == 5


async def test_a_list_has_failed_volumes_first(home: house.House) -> None:
    """As people look for them."""
    job = await home.order("W1-I1", "W1-I2", "W1-I3")
    await home.conn.execute(
        "update volume_tasks set current_stage = 'ocr', status = 'failed', attempts = 3 "
        "where id = (select max(id) from volume_tasks)"
    )
    rows = await jobs.Jobs(home.service).tasks(job)
    assert [row["bdrc_i_id"] for row in rows] == ["I3", "I1", "I2"]


async def test_volumes_are_found_by_name_whatever_happens_meanwhile(
    home: house.House, moving: jobs.Jobs
) -> None:
    """Those of another job with the same name are not meant."""
    await home.order("W1-I3")
    job = await home.order(*(f"W1-I{n}" for n in range(5)))
    names = [jobs.Name("W1", "I3"), jobs.Name("W1", "I4")]
    assert await moving.rerun(job, "line_detection", volumes=names) == (2, 0)
    again = await home.rows(
        "select t.job_id, v.bdrc_i_id from volume_tasks as t join volumes as v "
        "on v.id = t.volume_id where t.forced_stage = 'line_detection' order by 2"
    )
    assert again == [(job, "I3"), (job, "I4")]


async def test_a_volume_that_the_job_does_not_have_is_told(home: house.House) -> None:
    """Neither one that nobody has, nor one of another job."""
    await home.order("W1-I2")
    job = await home.order("W1-I1")
    found = jobs.Jobs(home.service)
    names = [jobs.Name("W1", name) for name in ("I1", "I2", "I3")]
    with pytest.raises(errors.InvalidCall, match=r"no volume W1-I2, W1-I3$"):
        await found.rerun(job, "ocr", volumes=names)
    with pytest.raises(errors.InvalidCall, match=r"no volume W1-I3$"):
        await found.rerun(job, "ocr", volumes=names[2:])
