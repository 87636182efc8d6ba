"""The one way to Postgres: a method for each function, and select(), directly or over HTTP.

Whatever a call returns or raises is the same over both transports: values are what PostgREST's
JSON would hold, errors are ours, by SQLSTATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.database.direct import connect_direct
from pagewarden.database.interface import TIMEOUT_SECONDS, Database, User
from pagewarden.database.retries import with_retries

if TYPE_CHECKING:
    from pagewarden import settings as settings_module

__all__ = ["Database", "User", "connect", "connect_direct", "connect_http", "with_retries"]


async def connect(settings: settings_module.Settings) -> Database:
    """Connect as service role: over HTTP where a Supabase project is set, otherwise directly."""
    if settings.supabase_url and settings.supabase_key:
        return connect_http(settings.supabase_url, settings.supabase_key.get_secret_value())
    if settings.database_url:
        return await connect_direct(settings.database_url.get_secret_value())
    raise errors.SettingsError(
        "no database is set; set PAGEWARDEN_DATABASE_URL, "
        "or PAGEWARDEN_SUPABASE_URL and PAGEWARDEN_SUPABASE_KEY"
    )


def connect_http(url: str, key: str, *, timeout: float = TIMEOUT_SECONDS) -> Database:
    """Connect to a Supabase project with its secret key, and seconds for each call."""
    # Takes as long to import as all the rest, and most have Postgres itself.
    from pagewarden.database import http  # noqa: PLC0415

    return http.connect(url, key, timeout=timeout)
