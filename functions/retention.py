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
    """How much was removed: files, check jobs, rows."""

    erased: int = Field(description="Of documents that were erased.")
    orphaned: int = Field(description="Of uploads that broke off before there was a document.")
    unfinished: int = Field(description="Half written.")
    purged: int = Field(description="Check jobs whose results are gone.")
    erased_jobs: int = Field(description="Check jobs that are gone with their pictures.")
    documents: int = Field(description="Documents that were in the bin for long.")
    errors: int = Field(description="Errors of documents that need nobody.")
    webhooks: int = Field(description="Webhooks that were settled long ago.")


@router.post("")
async def clean(used: services.Used, run: runs.Current) -> Cleaned:
    """Remove them; calling it often does no harm."""
    terms, now = retention.Terms.of(used.settings), dt.datetime.now(dt.UTC)
    done = await retention.clean(used.database, used.store, terms, now=now)
    cleaned = Cleaned.model_validate(dataclasses.asdict(done))
    run.told(cleaned)
    return cleaned
