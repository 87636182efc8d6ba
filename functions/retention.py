"""`retention`: remove expired check jobs, rows and files; count unknown files."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.documents import retention
from pagewarden.functions.http import authentication, function_config

NAME = "retention"

router = authentication.make_router(NAME)


class RetentionResult(BaseModel):
    """Number of files, check jobs and rows removed; number and size of unknown files."""

    erased: int = Field(description="Files of erased documents removed.")
    expired: int = Field(
        description="Staged uploads and exports for download removed at the end of their time."
    )
    unfinished: int = Field(description="Partially written files removed.")
    purged: int = Field(description="Check jobs whose results were removed.")
    erased_jobs: int = Field(description="Check jobs removed with their pictures.")
    documents: int = Field(description="Documents erased at the end of their time in the bin.")
    errors: int = Field(description="Errors removed from documents without an open dead letter.")
    webhooks: int = Field(description="Delivered and abandoned webhooks removed.")
    unknown_files: int = Field(description="Uploaded files without a document; these are kept.")
    unknown_bytes: int = Field(description="Total size of the unknown files in bytes.")


@router.post("")
async def remove_expired(
    services: services.Current, run: function_config.Current
) -> RetentionResult:
    """Remove expired check jobs, rows and files; the call is idempotent."""
    policy = retention.RetentionPolicy.from_settings(services.settings)
    now = dt.datetime.now(dt.UTC)
    done = await retention.apply_retention(services.database, services.store, policy, now=now)
    result = RetentionResult.model_validate(done.counts)
    run.set_result(result)
    return result
