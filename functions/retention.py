"""retention: remove files that nobody needs any more."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, Field

from functions import callers, runs, services
from pagewarden import retention

NAME = "retention"

router = callers.guarded_router(NAME)


class Cleaned(BaseModel):
    """How many files were removed."""

    erased: int = Field(description="Of documents that were erased.")
    orphaned: int = Field(description="Of uploads that broke off before there was a document.")
    unfinished: int = Field(description="Half written.")


@router.post("")
async def clean(used: services.Used, run: runs.Current) -> Cleaned:
    """Remove them; calling it often does no harm."""
    done = await retention.clean(used.database, used.store, now=dt.datetime.now(dt.UTC))
    cleaned = Cleaned(erased=done.erased, orphaned=done.orphaned, unfinished=done.unfinished)
    run.told(cleaned)
    return cleaned
