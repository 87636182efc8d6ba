"""Access to Postgres: a method for each SQL function, and select(), insert() and update().

`direct` calls Postgres itself, `http` a Supabase project through PostgREST. Both return the values
of PostgREST's JSON and raise the same errors, by SQLSTATE. `client`, `rows` and `tables` are
generated. Begin with `connect`; `retry` and `listener` are for workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.database.base import TIMEOUT_SECONDS, Database, User
from pagewarden.database.direct import connect_direct
from pagewarden.database.retry import retry_on_conflict
from pagewarden.errors import SettingsError

if TYPE_CHECKING:
    from pagewarden.settings import Settings

__all__ = ["Database", "User", "connect", "connect_direct", "connect_http", "retry_on_conflict"]


async def connect(settings: Settings) -> Database:
    """Connect as service role: over HTTP if a Supabase project is set, otherwise directly."""
    if settings.supabase_url and settings.supabase_key:
        return connect_http(settings.supabase_url, settings.supabase_key.get_secret_value())
    if settings.database_url:
        return await connect_direct(settings.database_url.get_secret_value())
    raise SettingsError(
        "no database is configured; set PAGEWARDEN_DATABASE_URL, "
        "or PAGEWARDEN_SUPABASE_URL and PAGEWARDEN_SUPABASE_KEY"
    )


def connect_http(url: str, key: str, *, timeout: float = TIMEOUT_SECONDS) -> Database:
    """Connect to a Supabase project with its secret key; `timeout` is in seconds for each call."""
    from pagewarden.database import http  # noqa: PLC0415  # slow to import, and rarely needed

    return http.connect(url, key, timeout=timeout)
