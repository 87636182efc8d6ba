"""pool-manager: one step of the leader of the pool for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagewarden.database import Database
    from tests.functions.house import House


async def _report(gateway: Database, *worker_ids: str) -> dict[str, Any]:
    """Report workers of a program, and return the lane of each."""
    workers = [{"worker_id": worker_id} for worker_id in worker_ids]
    answer = await gateway.report_pool(process="program", lanes=["index", "acte"], workers=workers)
    return dict(answer["lanes"])


async def test_call_assigns_the_workers_that_no_program_leads(functions: House) -> None:
    """Its lead lasts from call to call, in one term."""
    gateway = functions.used.database
    await _report(gateway, "a", "b")
    for _ in range(2):
        answer = (await functions.serve("pool-manager")).json()
        assert answer == {"leads": True, "workers": 2}
    assert sorted((await _report(gateway, "a", "b")).values(), key=str) == ["acte", "index"]
    conn = await functions.factory.database.connect()
    cursor = await conn.execute("select process, term from private.pool_leader")
    assert await cursor.fetchall() == [("pool-manager", 1)]


async def test_program_that_leads_keeps_the_lead(functions: House) -> None:
    """The call changes nothing then."""
    gateway = functions.used.database
    await _report(gateway, "a")
    await gateway.lead_pool(process="program", lease_seconds=3600)
    answer = (await functions.serve("pool-manager")).json()
    assert answer == {"leads": False, "workers": 1}
    assert list((await _report(gateway, "a")).values()) == [None]


async def test_empty_pool_gets_no_leader(functions: House) -> None:
    """Otherwise the first program to start would have to wait for the lead."""
    answer = (await functions.serve("pool-manager")).json()
    assert answer == {"leads": False, "workers": 0}
    assert (await functions.used.database.pool_status(hours=1))["leader"] is None


async def test_only_services_call_it(functions: House) -> None:
    """It is not for users."""
    user = await functions.factory.user()
    assert (await functions.post("pool-manager", user=user)).status_code in {401, 403}
