"""A job of volumes that stands still says why, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.dashboard import shelves
from tests.dashboard.test_doors import csrf
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboard import place as places

JOB = f"/volumes/{books.JOB}"
UNMOVED, NOBODY = 'id="unmoved"', 'id="waits-line_detection"'


async def test_a_job_that_stands_still_says_why(place: places.Place, tmp_path: Path) -> None:
    """No orchestrator that looks, no worker at a stage; nothing of it while all goes well."""
    person = await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    await home.order("W1-I1", "W1-I2", job_key=books.JOB)
    conn = place.functions.factory.conn
    async with place.visitor(person) as client:

        async def said() -> tuple[bool, bool]:
            html = (await client.get(JOB)).text
            return UNMOVED in html, NOBODY in html

        html = (await client.get(JOB)).text
        assert "No orchestrator has looked after volumes yet" in html
        assert "pagewarden up" in html
        await home.orchestrator.look()
        assert await said() == (False, False)
        await conn.execute("update volume_tasks set published_at = now() - interval '5 minutes'")
        html = (await client.get(JOB)).text
        assert "2 volumes wait for line_detection, the first for 5 min" in html
        assert "pagewarden volumes work --stage line_detection" in html
        await conn.execute(
            "update private.volume_orchestrator_state set last_pass_at = now() - interval '1 hour'"
        )
        html = (await client.get(JOB)).text
        assert "No orchestrator has looked after volumes for 60 min" in html
        (first, *_) = await home.tasks("id")
        await home.link.start_volume_stage(
            task_id=first[0], stage="line_detection", attempt=1, worker_id="w7"
        )
        assert await said() == (True, False)
        await client.post(f"{JOB}/cancel", data={"csrf": await csrf(client)})
        assert await said() == (False, False)
