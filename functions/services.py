"""What the functions work with: opened once for a process, handed to every handler."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from functions import pace
from pagewarden import concurrency, database, files, keys, tokens
from pagewarden.documents import lane_reader, store_reader
from pagewarden.local import stack
from pagewarden.local.sign_in import service as sign_in
from pagewarden.reading import reader as readers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.documents import claims
    from pagewarden.files.interface import FileStore
    from pagewarden.settings import Settings

# Makes exports of originals, and reads nothing.
_EXPORTING_ENGINE = "null"
_EXPORTING_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Services:
    """Database (as service role), file store, keys and who checks them, who reads and exports.

    sign_in is None where a Supabase project signs people in. at_work is set for a function that
    is working through its lanes. Once stopping is set, documents in hand are given back.
    """

    settings: Settings
    database: database.Database
    store: FileStore
    keys: keys.Keys
    verifier: tokens.Verifier
    reader: claims.Reader
    exporter: concurrency.Lazy[readers.Reader]
    sign_in: sign_in.Service | None = None
    at_work: dict[str, asyncio.Lock] = field(default_factory=dict)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    pace: pace.Pace = field(default_factory=pace.Pace)


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    """Connect to everything the settings name."""
    async with contextlib.AsyncExitStack() as resources:
        enter = resources.enter_async_context
        if settings.supabase_url is not None:
            link: database.Database = await enter(await database.connect(settings))
            known, signing_in = keys.load(settings), None
        else:
            found = await enter(stack.ready(settings))
            link = await enter(await database.connect_direct(found.url))
            known = keys.load(settings)
            signing_in = sign_in.Service(found.url, known, site_url=settings.site_url)
            resources.push_async_callback(signing_in.aclose)
        store = await enter(files.open_store(settings))
        yield Services(
            settings,
            link,
            store,
            known,
            tokens.make_verifier(settings),
            await enter(
                lane_reader.opened(
                    settings, store, link, wishes=store_reader.Wishes.usual(settings)
                )
            ),
            await enter(concurrency.open_lazily(make_exporter)),
            signing_in,
        )


def make_exporter() -> readers.Reader:
    """Make what parses originals for exports, in the sandbox."""
    return readers.Reader(engine=_EXPORTING_ENGINE, processes=_EXPORTING_PROCESSES)


def address_of(request: Request, used: Services, route: str, **params: object) -> str:
    """Tell where a route is: where people reach us, which is here unless somebody has said so."""
    path = request.app.url_path_for(route, **params)
    is_said = "site_url" in used.settings.model_fields_set
    return f"{used.settings.site_url if is_said else str(request.base_url).rstrip('/')}{path}"


def _of_app(request: Request) -> Services:
    return cast("Services", request.app.state.services)


Used = Annotated[Services, Depends(_of_app)]
"""A parameter of this type gets the services of the app."""
