"""`volume-orchestrator`: run one step of the orchestrator of volumes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.functions.http import authentication, function_config
from pagewarden.volumes import orchestrator, queues

NAME = "volume-orchestrator"

router = authentication.make_router(NAME)


class StepResult(BaseModel):
    """Changes made by one step."""

    published: int = Field(default=0, description="Volumes queued for their next stage.")
    rescued: int = Field(default=0, description="Volumes reclaimed from dead workers.")
    completed: int = Field(default=0, description="Jobs completed.")
    failed: int = Field(default=0, description="Jobs that ended with failed volumes.")
    busy: bool = Field(
        default=False, description="Whether another orchestrator is already running."
    )


@router.post("")
async def run_step(services: services.Current, run: function_config.Current) -> StepResult:
    """Run one step of the orchestrator; the call is idempotent."""
    publisher = queues.open_publisher(services.settings)
    step = await orchestrator.Orchestrator(services.database, NAME, publisher).step()
    if step is None:
        result = StepResult(busy=True)
    else:
        result = StepResult(
            published=step.published,
            rescued=step.rescued,
            completed=step.completed,
            failed=step.failed,
        )
    run.set_result(result)
    return result
