"""The children of a stage: one sandbox for each run, and a crew in it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pagewarden.exports import document
from pagewarden.reading import engines, reader
from pagewarden.reading.sandbox import duties, host
from pagewarden.volumes import crew

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from pagewarden.reading import engine
    from pagewarden.volumes import config as configs

AHEAD = 2
"""How many pages are fetched or wait to be taken, for each that is worked on."""

SOFTWARE = f"{document.SOFTWARE} {document.VERSION}"


class Sandbox:
    """A crew, and the version of what it works with; ahead is how many pages are under way."""

    def __init__(self, at_work: crew.Crew, width: int, version: str) -> None:
        self.crew = at_work
        self.ahead = AHEAD * width
        self.version = version


@contextlib.asynccontextmanager
async def opened(
    config: configs.Config, duty: duties.Duty, *, reading: bool = False
) -> AsyncGenerator[Sandbox]:
    """Start a sandbox whose children have this duty, and if reading the engine of the config."""
    name = config.engine if reading else ""
    with _remote(name, config.profile) as ours:
        width = config.processes or (reader.REMOTE_PROCESSES if ours else os.cpu_count() or 1)
        sandbox = host.Host("" if ours else name, config.profile, duty)
        async with (
            sandbox,
            crew.Crew(sandbox, width, languages=config.languages, reader=ours) as at_work,
        ):
            version = ours.version if ours else sandbox.version
            yield Sandbox(at_work, width, version or SOFTWARE)


@contextlib.contextmanager
def _remote(name: str, profile: str) -> Iterator[engine.Engine | None]:
    """Make the engine ourselves where it needs the network."""
    made = engines.make(name, profile) if name and engines.find(name).remote else None
    try:
        yield made
    finally:
        if isinstance(made, engines.Closing):
            made.close()
