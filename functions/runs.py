"""When functions ran and how it ended, for the people who look after them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import structlog
from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError

from functions import answers, services
from pagewarden import errors

if TYPE_CHECKING:
    from pydantic import BaseModel

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Run:
    """One call of a function; result is what it says of itself."""

    id: int
    result: dict[str, Any] | None = None

    def told(self, answer: BaseModel) -> None:
        """Take the answer of the function for its result."""
        self.result = answer.model_dump(mode="json", exclude_defaults=True)


def noted(name: str) -> Callable[[Request, services.Used], AsyncIterator[None]]:
    """Make what notes beginning and end of each call; it comes after the guards."""

    async def note(request: Request, used: services.Used) -> AsyncIterator[None]:
        run = Run(await used.database.begin_function_run(function_name=name))
        request.state.run = run
        try:
            yield
        except RequestValidationError as exc:
            await _end(used, run, "refused", answers.problems(exc))
            raise
        except answers.RefusedError as exc:
            await _end(used, run, "refused", str(exc))
            raise
        except Exception as exc:
            await _end(used, run, "failed", str(exc) or type(exc).__name__)
            raise
        await _end(used, run, "completed")

    return note


async def _end(used: services.Services, run: Run, outcome: str, error: str | None = None) -> None:
    try:
        await used.database.end_function_run(
            run_id=run.id, outcome=outcome, error=error, result=run.result
        )
    except errors.DatabaseError as exc:
        log.warning("run_not_noted", run=run.id, error=str(exc))


def _of_request(request: Request) -> Run:
    return cast("Run", request.state.run)


Current = Annotated[Run, Depends(_of_request)]
"""A parameter of this type is the present call."""
