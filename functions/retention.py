"""retention: remove old check jobs and files of erased documents; report unknown files."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, Field

from functions import callers, runs, services
from pagewarden import retention

NAME = "retention"

router = callers.guarded_router(NAME)


class Cleaned(BaseModel):
    """How much was removed: files, check jobs, rows; and how many files are unknown."""

    erased: int = Field(description="Of documents that were erased.")
    unfinished: int = Field(description="Half written.")
    purged: int = Field(description="Check jobs whose results are gone.")
    erased_jobs: int = Field(description="Check jobs that are gone with their pictures.")
    documents: int = Field(description="Documents that were in the bin for long.")
    errors: int = Field(description="Errors of documents that need nobody.")
    webhooks: int = Field(description="Webhooks that were settled long ago.")
    unknown_files: int = Field(description="Uploaded files that no document names; they stay.")
    unknown_bytes: int = Field(description="How much space the unknown files take.")


@router.post("")
async def clean(used: services.Used, run: runs.Current) -> Cleaned:
    """Remove them; calling it often does no harm."""
    terms, now = retention.Terms.of(used.settings), dt.datetime.now(dt.UTC)
    done = await retention.clean(used.database, used.store, terms, now=now)
    cleaned = Cleaned.model_validate(done.counts)
    run.told(cleaned)
    return cleaned
