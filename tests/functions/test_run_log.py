"""What is noted of the calls of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from pagewarden.database import rows
    from tests.functions.house import House


async def _runs(functions: House, name: str) -> list[rows.FunctionRun]:
    listed = await functions.used.database.list_functions()
    (runs,) = [row["runs"] for row in listed if row["function_name"] == name]
    return [run for run in runs if run["outcome"]]


async def _last(functions: House, name: str, count: int = 1) -> rows.FunctionRun:
    """Wait until so many have ended: it is noted after the answer was sent."""

    async def ended() -> bool:
        return len(await _runs(functions, name)) >= count

    await polling.wait_until(ended)
    return (await _runs(functions, name))[0]


async def test_a_call_is_noted_with_what_it_did(functions: House) -> None:
    """When, how long, and what came of it."""
    await functions.upload(await functions.factory.user(), house.PNG)
    await functions.serve("ocr-worker")
    run = await _last(functions, "ocr-worker")
    assert (run["outcome"], run["result"], run["error"]) == ("completed", {"completed": 1}, None)
    assert run["seconds"] is not None
    assert 0 <= run["seconds"] < 60


async def test_refusals_and_failures_are_told_apart(functions: House) -> None:
    """Wrong calls are the caller's fault; a database that cannot sweep is ours."""
    gone = {"document_id": "0" * 32, "lock_token": "0" * 32}
    assert (await functions.serve("ocr-universal", json=gone)).status_code == 409
    refused = await _last(functions, "ocr-universal")
    assert (refused["outcome"], "lock token" in (refused["error"] or "")) == ("refused", True)
    assert (await functions.serve("ocr-universal", json={})).status_code == 400
    malformed = await _last(functions, "ocr-universal", 2)
    assert malformed["outcome"] == "refused"
    assert (malformed["error"] or "").startswith("body.document_id: Field required")

    conn = await functions.database.connect()
    await conn.execute("revoke execute on function public.sweep_documents from service_role")
    assert (await functions.serve("stale-monitor")).status_code == 403
    failed = await _last(functions, "stale-monitor")
    assert (failed["outcome"], "permission denied" in (failed["error"] or "")) == ("failed", True)


async def test_who_is_not_let_in_leaves_no_trace(functions: House) -> None:
    """Neither strangers, nor people, nor calls of what is switched off."""
    user = await functions.factory.user()
    await functions.post("retention")
    await functions.post("retention", user=user)
    await functions.upload(user, house.PNG)
    await functions.factory.call("set_function", p_function_name="retention", p_enabled=False)
    assert (await functions.serve("retention")).status_code == 503
    listed = await functions.used.database.list_functions()
    assert [row["runs"] for row in listed if row["runs"]] == []
