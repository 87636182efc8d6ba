"""A job of volumes that stands still says why, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.dashboard import volume_jobs
from tests.dashboard.test_login import csrf
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboard import site as sites

JOB = f"/volumes/{books.JOB}"
UNMOVED, NOBODY = 'id="unmoved"', 'id="waits-line_detection"'


async def test_stalled_jobs_show_the_reason(site: sites.Site, tmp_path: Path) -> None:
    """A late orchestrator or a stage without workers; nothing while all is well."""
    person = await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order("W1-I1", "W1-I2", job_key=books.JOB)
    conn = site.functions.factory.conn
    async with site.client(person) as client:

        async def read_reasons() -> tuple[bool, bool]:
            html = (await client.get(JOB)).text
            return UNMOVED in html, NOBODY in html

        html = (await client.get(JOB)).text
        assert "No orchestrator has run yet" in html
        assert "pagewarden up" in html
        await home.orchestrator.step()
        assert await read_reasons() == (False, False)
        await conn.execute("update volume_tasks set published_at = now() - interval '5 minutes'")
        html = (await client.get(JOB)).text
        assert "2 volumes have been waiting for line_detection for up to 5 min" in html
        assert "pagewarden volumes work --stage line_detection" in html
        await conn.execute(
            "update private.volume_orchestrator_state set last_pass_at = now() - interval '1 hour'"
        )
        html = (await client.get(JOB)).text
        assert "No orchestrator has run for 60 min" in html
        (first, *_) = await home.tasks("id")
        await home.link.start_volume_stage(
            task_id=first[0], stage="line_detection", attempt=1, worker_id="w7"
        )
        assert await read_reasons() == (True, False)
        await client.post(f"{JOB}/cancel", data={"csrf": await csrf(client)})
        assert await read_reasons() == (False, False)
