"""Functions of supabase/config.toml and their callers; the log of runs by services."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import structlog
from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError

from pagewarden import data_files, services
from pagewarden.errors import DatabaseError, RequestRejected, SettingsError
from pagewarden.functions.http import errors
from pagewarden.services import Services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FunctionRun:
    """One call of a function; `result` is saved in the run log."""

    id: int
    result: dict[str, Any] | None = None

    def set_result(self, response: BaseModel) -> None:
        """Use the response of the function as the result of the run."""
        self.result = response.model_dump(mode="json", exclude_defaults=True, by_alias=True)


def record_run(name: str) -> Callable[[Request, services.Current], AsyncIterator[None]]:
    """Return a dependency that records the start and end of each call, after access checks."""

    async def record(request: Request, services: services.Current) -> AsyncIterator[None]:
        run = FunctionRun(await services.database.begin_function_run(function_name=name))
        request.state.run = run
        try:
            yield
        except RequestValidationError as exc:
            await _end_run(services, run, "refused", errors.describe_invalid(exc))
            raise
        except RequestRejected as exc:
            await _end_run(services, run, "refused", str(exc))
            raise
        except Exception as exc:
            await _end_run(services, run, "failed", str(exc) or type(exc).__name__)
            raise
        await _end_run(services, run, "completed")

    return record


async def _end_run(
    services: Services, run: FunctionRun, outcome: str, error: str | None = None
) -> None:
    try:
        await services.database.end_function_run(
            run_id=run.id, outcome=outcome, error=error, result=run.result
        )
    except DatabaseError as exc:
        log.warning("run_recording_failed", run=run.id, error=str(exc))


def _current_run(request: Request) -> FunctionRun:
    return cast("FunctionRun", request.state.run)


Current = Annotated[FunctionRun, Depends(_current_run)]
"""Route parameter type: the current run."""


def list_functions() -> frozenset[str]:
    """Return the names of all functions."""
    return frozenset(_load_tables())


def requires_user_token(name: str) -> bool:
    """Tell whether users call a function; otherwise services do, with the secret key."""
    try:
        return _load_tables()[name]
    except KeyError:
        raise SettingsError(
            f"supabase/config.toml has no [functions.{name}] table; add it"
        ) from None


@functools.cache
def _load_tables() -> Mapping[str, bool]:
    tables = tomllib.loads(data_files.find("supabase/config.toml").read_text("utf-8"))["functions"]
    return {
        name: table.get("verify_jwt", True)  # the default of Supabase
        for name, table in tables.items()
        if table.get("enabled", True)
    }
