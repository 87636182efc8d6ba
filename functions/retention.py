"""retention: remove old check jobs, and files that nobody needs any more."""

from __future__ import annotations

import dataclasses
import datetime as dt

from pydantic import BaseModel, Field

from functions import callers, runs, services
from pagewarden import retention

NAME = "retention"

router = callers.guarded_router(NAME)


class Cleaned(BaseModel):
    """How many files and check jobs were removed."""

    erased: int = Field(description="Of documents that were erased.")
    orphaned: int = Field(description="Of uploads that broke off before there was a document.")
    unfinished: int = Field(description="Half written.")
    purged: int = Field(description="Check jobs whose results are gone.")
    erased_jobs: int = Field(description="Check jobs that are gone with their pictures.")


@router.post("")
async def clean(used: services.Used, run: runs.Current) -> Cleaned:
    """Remove them; calling it often does no harm."""
    terms = retention.Terms(used.settings.check_result_days, used.settings.check_input_days)
    done = await retention.clean(used.database, used.store, terms, now=dt.datetime.now(dt.UTC))
    cleaned = Cleaned.model_validate(dataclasses.asdict(done))
    run.told(cleaned)
    return cleaned
