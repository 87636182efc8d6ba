"""What a server process opens once, shared by all handlers of functions and dashboard."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from pagewarden import concurrency, storage
from pagewarden.auth import hosted, tokens
from pagewarden.auth.embedded.service import AuthService
from pagewarden.auth.keys import InstallationKeys, load_keys
from pagewarden.checks import jobs
from pagewarden.database import Database, connect, connect_direct
from pagewarden.documents import page_images, upload
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.reader import open_lane_reader
from pagewarden.exports import sandbox
from pagewarden.local import stack
from pagewarden.ocr import page_image
from pagewarden.ocr.reader import Reader
from pagewarden.storage import signed_urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.documents.claim import ReaderSelector
    from pagewarden.settings import Settings
    from pagewarden.storage.base import FileStore
    from pagewarden.volumes.page_view import VolumeReader

# Exports and page images parse originals but recognise nothing.
_EXPORT_ENGINE = "null"
_EXPORT_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Services:
    """Connections, stores and readers of a server process; `database` acts as the service role.

    Once `stopping` is set, handlers release their documents and end their streams.
    """

    settings: Settings
    database: Database
    store: FileStore
    keys: InstallationKeys
    verifier: tokens.TokenVerifier
    sign_in: hosted.SignInProvider
    reader: ReaderSelector
    exporter: concurrency.LazyResource[Reader]
    page_images: page_images.PageImageRenderer
    volumes: concurrency.LazyResource[VolumeReader]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def uploader(self) -> upload.Uploader:
        """Stores uploaded files and creates their documents."""
        has_webhooks = self.keys.webhook_secret is not None
        return upload.Uploader(self.database, self.store, self.settings, has_webhooks)

    @property
    def check_jobs(self) -> jobs.CheckJobs:
        """Validates and queues check jobs."""
        has_webhooks = self.keys.webhook_secret is not None
        return jobs.CheckJobs(self.database, self.store, self.settings, has_webhooks)

    @property
    def links(self) -> signed_urls.LinkFactory:
        """Makes temporary links to files and page images."""
        return signed_urls.LinkFactory(self.store, self.keys.secret_key)

    def public_url(self, request: Request, route: str, **params: object) -> str:
        """Return the URL of a route: below the site URL if that is set, else as requested."""
        path = request.app.url_path_for(route, **params)
        return f"{self.public_base(request)}{path}"

    def public_base(self, request: Request) -> str:
        """Return the site URL if that is set, else the base of the requested URL."""
        has_site_url = "site_url" in self.settings.model_fields_set
        return self.settings.site_url if has_site_url else str(request.base_url).rstrip("/")


@contextlib.asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open everything that the settings name."""
    async with contextlib.AsyncExitStack() as resources:
        enter = resources.enter_async_context
        sign_in: hosted.SignInProvider
        if settings.supabase_url is not None:
            database: Database = await enter(await connect(settings))
            keys = load_keys(settings)
            sign_in = await enter(
                hosted.open_hosted_sign_in(settings.supabase_url, keys.publishable_key or "")
            )
        else:
            server = await enter(stack.open_migrated(settings))
            database = await enter(await connect_direct(server.url))
            keys = load_keys(settings)
            sign_in = AuthService(server.url, keys, site_url=settings.site_url)
            resources.push_async_callback(sign_in.aclose)
        store = await enter(storage.open_store(settings))
        options = ReadOptions.from_settings(settings)
        exporter = await enter(concurrency.open_lazily(make_exporter))
        yield Services(
            settings,
            database,
            store,
            keys,
            tokens.make_verifier(settings),
            sign_in,
            await enter(open_lane_reader(settings, store, database, options=options)),
            exporter,
            await enter(page_images.open_page_images(store, exporter)),
            await enter(open_volumes(settings)),
        )


def make_exporter() -> Reader:
    """Return the reader that parses originals in the sandbox for exports and page images."""
    return Reader(
        engine=_EXPORT_ENGINE,
        processes=_EXPORT_PROCESSES,
        preload=(*sandbox.PRELOAD, *page_image.PRELOAD),
    )


def open_volumes(
    settings: Settings,
) -> contextlib.AbstractAsyncContextManager[concurrency.LazyResource[VolumeReader]]:
    """Open the published volumes on first use."""

    def open_volume_reader() -> contextlib.AbstractAsyncContextManager[VolumeReader]:
        # Reading Parquet takes 45 MB of memory, and few processes need it.
        from pagewarden.volumes import page_view  # noqa: PLC0415

        return page_view.open_volume_reader(settings)

    return concurrency.open_lazily(open_volume_reader)


def from_request(request: Request) -> Services:
    """Return the services of the app that received the request."""
    return cast("Services", request.app.state.services)


Current = Annotated[Services, Depends(from_request)]
"""Route parameter type: the app's services."""
