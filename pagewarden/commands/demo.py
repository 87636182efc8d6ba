"""pagewarden demo: something to look at."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from pagewarden import client, settings
from pagewarden.commands import ending, options
from pagewarden.demo import checking, drawing
from pagewarden.ocr_command import inputs
from pagewarden.uploading import shown, work


def command(*, case: options.Case = None, url: options.Url = None) -> None:
    """Upload a few sample documents, two of which need a person, and a check job.

    They are drawn on the spot: a letter, a worn act, a case file of four
    pages, a screenshot, a damaged PDF and a file of no type we know; and four
    screens of an app in French whose text is checked. Look at them in the
    dashboard, or with `pagewarden status`. Run it again, and nothing comes
    in twice.
    """
    chosen = settings.load()
    jobs: list[str] = []
    seen, outcome = shown.Shown(Console(stderr=True, highlight=False)), work.Outcome()
    with tempfile.TemporaryDirectory(prefix="pagewarden-demo-") as folder:
        items = [
            inputs.Input(path, path.name, Path(path.stem)) for path in drawing.draw(Path(folder))
        ]
        wishes = options.wishes(case, None, None, None)
        order = work.Order(wishes, formats=(), folder=None, scratch=Path(folder))

        async def upload() -> None:
            async with client.open_client(chosen, url) as server:
                await work.Work(server, order, seen, outcome).run(items)
                jobs.append(await checking.submit(server))

        with seen.bars():
            asyncio.run(ending.until_terminated(upload()))
    for failure in outcome.failures:
        seen.say(failure)
    site = url or chosen.site_url
    seen.say(f"{len(outcome.uploads)} documents are there; see {site}/documents")
    for job in jobs:
        seen.say(f"a check job is there; see {site}/checks/{job}")
    sys.exit(ending.SOME_FAILED if outcome.failures else 0)
