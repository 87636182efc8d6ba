"""What the dashboard works with, made of the services of the functions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from dashboard import app as dashboard
from dashboard import entrances, parts
from functions import answers, exporting, job_intake, links, upload_to_dropbox
from pagewarden import concurrency, errors
from pagewarden.checks import languages, parcels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fastapi import Request

    from functions import services
    from pagewarden.database import Database


@contextlib.asynccontextmanager
async def opened(used: services.Services) -> AsyncIterator[parts.Parts]:
    """Connect to whoever signs people in, and make exports as the function documents does."""

    @contextlib.asynccontextmanager
    async def export(
        database: Database, document_id: str, format_name: str
    ) -> AsyncIterator[exporting.Made]:
        with _as_pages_refuse():
            async with exporting.made(used, database, document_id, format_name) as made:
                yield made

    async def take_in(request: Request, database: Database) -> upload_to_dropbox.Accepted:
        with _as_pages_refuse():
            return await upload_to_dropbox.take_in(request, used, database, is_service=False)

    def volumes() -> contextlib.AbstractAsyncContextManager[parts.Volumes]:
        # Few look at volumes, and what reads Parquet takes 45 MB.
        from functions import volume_pages  # noqa: PLC0415

        return volume_pages.opened(used.settings)

    async with _entrance(used) as entrance, concurrency.open_lazily(volumes) as lazy_volumes:
        yield parts.Parts(
            used.settings.site_url,
            used.database,
            used.keys,
            used.verifier,
            entrance,
            export,
            take_in,
            Jobs(used),
            links.Links(used),
            lazy_volumes,
            dashboard.MENU,
            used.stopping,
        )


@dataclass(frozen=True, slots=True)
class Jobs:
    """Takes in check jobs as the function jobs does."""

    used: services.Services

    @property
    def limits(self) -> parcels.Limits:
        """Say how much a job may bring."""
        return job_intake.limits_of(self.used.settings)

    @property
    def default_language(self) -> str | None:
        """Give the code of the language of jobs that name none; None: it is not checked."""
        code = self.used.settings.check_language
        return languages.find(code).code if code else None

    async def take_in(self, request: Request, database: Database, guard: job_intake.Guard) -> str:
        """Queue the job of a form, and give its id."""
        with _as_pages_refuse():
            done = await job_intake.take_in(request, self.used, database, guard)
        return done.job_id


@contextlib.contextmanager
def _as_pages_refuse() -> Iterator[None]:
    try:
        yield
    except answers.RefusedError as exc:
        if exc.problems:
            found = [parcels.Problem(one.problem, one.image) for one in exc.problems]
            raise parts.NotTakenError(found) from exc
        raise HTTPException(exc.status, str(exc)) from exc
    except errors.PagewardenError as exc:
        raise HTTPException(answers.status_of(exc), str(exc)) from exc


def _entrance(
    used: services.Services,
) -> contextlib.AbstractAsyncContextManager[entrances.Entrance]:
    if used.sign_in is not None:
        return contextlib.nullcontext(entrances.Embedded(used.sign_in))
    return entrances.hosted(used.settings.supabase_url or "", used.keys.publishable_key or "")
