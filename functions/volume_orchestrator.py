"""volume-orchestrator: look over all volumes once, and move on what is to be moved."""

from __future__ import annotations

from pydantic import BaseModel, Field

from functions import callers, runs, services
from pagewarden.volumes import orchestrator, queues

NAME = "volume-orchestrator"

router = callers.guarded_router(NAME)


class Looked(BaseModel):
    """What was found and done."""

    published: int = Field(default=0, description="Volumes that a stage waits for now.")
    rescued: int = Field(default=0, description="Volumes that dead workers had.")
    completed: int = Field(default=0, description="Jobs of which all volumes are done.")
    failed: int = Field(default=0, description="Jobs that ended with volumes that failed.")
    busy: bool = Field(default=False, description="Another orchestrator is at it already.")


@router.post("")
async def look(used: services.Used, run: runs.Current) -> Looked:
    """Look once; calling it often does no harm."""
    publisher = queues.open_publisher(used.settings)
    seen = await orchestrator.Orchestrator(used.database, NAME, publisher).look()
    if seen is None:
        looked = Looked(busy=True)
    else:
        looked = Looked(
            published=seen.published,
            rescued=seen.rescued,
            completed=seen.completed,
            failed=seen.failed,
        )
    run.told(looked)
    return looked
