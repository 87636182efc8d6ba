"""What the functions work with: opened once for a process, handed to every handler."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from pagewarden import files, tokens
from pagewarden.local import stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.database import Database
    from pagewarden.files.interface import FileStore
    from pagewarden.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Database (as service role), file store, and who checks tokens."""

    settings: Settings
    database: Database
    store: FileStore
    verifier: tokens.Verifier


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    """Connect to everything the settings name."""
    async with stack.connected(settings) as database, files.open_store(settings) as store:
        yield Services(settings, database, store, tokens.make_verifier(settings))


def _of_app(request: Request) -> Services:
    return cast("Services", request.app.state.services)


Used = Annotated[Services, Depends(_of_app)]
"""A parameter of this type gets the services of the app."""
