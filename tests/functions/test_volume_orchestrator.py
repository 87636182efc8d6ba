"""volume-orchestrator: one look over all volumes for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.database import volumes

if TYPE_CHECKING:
    from tests.functions.house import House


async def test_each_call_moves_on_what_is_to_be_moved(functions: House) -> None:
    """A volume is published for its next stage; in the end its job is completed."""
    made = volumes.Volumes(functions.factory)
    await made.order("W1-I1")
    for stage in volumes.STAGES:
        answer = (await functions.serve("volume-orchestrator")).json()
        assert (answer["published"], answer["busy"]) == (1, False)
        await made.complete(await made.take(stage))
    assert (await functions.serve("volume-orchestrator")).json()["completed"] == 1


async def test_a_call_while_another_looks_has_nothing_to_add(functions: House) -> None:
    """It says so, and waits for nothing."""
    other = await functions.factory.database.connect(claims={"role": "service_role"})
    async with other.transaction():
        await other.execute("select orchestrate_volumes()")
        assert (await functions.serve("volume-orchestrator")).json()["busy"]


async def test_people_do_not_call_it(functions: House) -> None:
    """It is for services."""
    user = await functions.factory.user()
    assert (await functions.post("volume-orchestrator", user=user)).status_code in {401, 403}
