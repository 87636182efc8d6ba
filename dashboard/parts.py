"""What the pages work with; whoever mounts the dashboard hands it over."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

from fastapi import Depends, Request

from dashboard import entrances, navigation
from pagewarden import concurrency, database, keys, tokens
from pagewarden.checks import parcels
from pagewarden.volumes import editions

if TYPE_CHECKING:
    from pagewarden.volumes import downloads, looking


class Made(Protocol):
    """An export on disk, for as long as it is needed."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def name(self) -> str:
        """What it is called when it is saved."""

    @property
    def media_type(self) -> str:
        """What it is."""


Export = Callable[[database.Database, str, str], contextlib.AbstractAsyncContextManager[Made]]
"""Makes an export of a document (its id, the format), as somebody sees it in this database."""


class Accepted(Protocol):
    """The document that an upload has become."""

    @property
    def document_id(self) -> uuid.UUID:
        """Which it is."""

    @property
    def existing(self) -> bool:
        """Whether the case had these very bytes under this name already."""


TakeIn = Callable[[Request, database.Database], Awaitable[Accepted]]
"""Stores the file of a request and makes it a document, as whoever the database acts for."""


class NotTakenError(Exception):
    """A check job that was refused, and all that is wrong with it."""

    def __init__(self, problems: Sequence[parcels.Problem]) -> None:
        super().__init__(str(parcels.RefusedError(problems)))
        self.problems = problems


class Jobs(Protocol):
    """Takes in check jobs."""

    @property
    def limits(self) -> parcels.Limits:
        """Say how much a job may bring."""

    @property
    def default_language(self) -> str | None:
        """Give the code of the language of jobs that name none; None: it is not checked."""

    async def take_in(
        self, request: Request, database: database.Database, guard: Callable[[str], None]
    ) -> str:
        """Queue the job of a form as whoever the database acts for, and give its id.

        The guard is given the field csrf, and raises when it is wrong. What is wrong with the job
        is a NotTakenError.
        """


class Links(Protocol):
    """Makes links that open something in the store for a short while, for whoever has them."""

    def picture(self, path: str, number: int) -> str:
        """Lead to the picture of a page of the file at this path."""

    async def file(self, path: str) -> str:
        """Lead to the file itself."""

    async def beginning(self, path: str, size: int) -> bytes:
        """Give the first bytes of the file, which tell people what it may be."""


class Volumes(Protocol):
    """Looks into what stages have published of volumes; whoever asks may see the volume.

    What cannot be had is a PagewardenError.
    """

    async def pages(self, edition: editions.Edition) -> Sequence[looking.Listed]:
        """List the pages of a volume in their order."""

    async def figures(
        self, edition: editions.Edition, names: Collection[str]
    ) -> Mapping[str, looking.Figures]:
        """Count the lines of some pages."""

    async def page(self, edition: editions.Edition, name: str) -> looking.Page | None:
        """Look at one page; None if the volume has none of this name."""

    async def picture(self, edition: editions.Edition, name: str) -> bytes | None:
        """Give the rotated image of a page as JPEG; None if there is no such page."""

    async def downloadable(self, edition: editions.Edition) -> Sequence[downloads.Found]:
        """List what can be downloaded of a volume; only what is there."""

    def download(
        self, edition: editions.Edition, name: str
    ) -> contextlib.AbstractAsyncContextManager[Made]:
        """Have a copy of one of these files; FileNotThere for any other name."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Database (as service role), sign-in, check of tokens, and what makes and takes files.

    Once stopping is set, answers that go on and on come to an end.
    """

    site_url: str
    database: database.Database
    keys: keys.Keys
    verifier: tokens.Verifier
    entrance: entrances.Entrance
    export: Export
    take_in: TakeIn
    jobs: Jobs
    links: Links
    volumes: concurrency.Lazy[Volumes]
    pages: tuple[navigation.Page, ...]
    stopping: asyncio.Event


def of_request(request: Request) -> Parts:
    """Find the parts of the app that got the request."""
    return cast("Parts", request.app.state.dashboard)


Used = Annotated[Parts, Depends(of_request)]
"""A parameter of this type gets the parts of the dashboard."""
