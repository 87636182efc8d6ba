"""SQL statements and connections of the auth schema; each statement is a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import rows

from pagewarden import errors
from pagewarden.database import connection_pool
from pagewarden.database.errors import translate_postgres_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import LiteralString

    import psycopg

T = TypeVar("T")

_CONNECTIONS = 5
_TIMEOUT_SECONDS = 10.0

_USER = """
  u.id, u.email, u.encrypted_password, u.raw_app_meta_data as app_metadata,
  u.raw_user_meta_data as user_metadata, u.email_confirmed_at, u.last_sign_in_at, u.banned_until,
  u.created_at, u.updated_at
"""

HAS_EMBEDDED_SIGN_IN = "select to_regclass('auth.failed_sign_ins') is not null"

# Users ---------------------------------------------------------------------------------------

FIND_USER = (
    "select" + _USER + "from auth.users as u where u.email = %(email)s and u.deleted_at is null"
)

GET_USER = "select" + _USER + "from auth.users as u where u.id = %(id)s and u.deleted_at is null"

LIST_USERS = """
select u.email, u.created_at, u.last_sign_in_at,
  exists (
    select from public.user_roles as r where r.user_id = u.id and r.role = 'admin'
  ) as is_admin
from auth.users as u
where u.email is not null and u.deleted_at is null
order by u.email
"""

# Adds no user if the address is taken.
ADD_USER = """
with added as (
  insert into auth.users as u (
    email, encrypted_password, raw_app_meta_data, email_confirmed_at, created_at, updated_at
  )
  values (
    %(email)s, %(encrypted_password)s, '{"provider": "email", "providers": ["email"]}', %(now)s,
    %(now)s, %(now)s
  )
  on conflict (email) do nothing
  returning u.id
),
made_admin as (
  insert into public.user_roles (user_id, role)
  select a.id, 'admin' from added as a where %(is_admin)s
)
select a.id from added as a
"""

ADD_ROLE = """
insert into public.user_roles (user_id, role)
select u.id, 'admin' from auth.users as u where u.email = %(email)s and u.deleted_at is null
on conflict do nothing
"""

REMOVE_ROLE = """
delete from public.user_roles as r
using auth.users as u
where u.email = %(email)s and r.user_id = u.id and r.role = 'admin'
"""

REMOVE_USER = "delete from auth.users as u where u.email = %(email)s"

# Ends all sessions, as the old password may be known to others; `kept` is the one that changes it.
SET_PASSWORD = """
with changed as (
  update auth.users as u
  set encrypted_password = %(encrypted_password)s, recovery_token = null, updated_at = %(now)s
  where u.id = %(id)s
  returning u.id
)
delete from auth.sessions as s
using changed as c
where s.user_id = c.id and s.id is distinct from %(kept)s
"""  # noqa: S105  # a statement

SET_METADATA = """
update auth.users as u
set raw_user_meta_data = %(data)s, updated_at = %(now)s
where u.id = %(id)s
"""

# Sessions ------------------------------------------------------------------------------------

START_SESSION = """
with seen as (
  update auth.users as u set last_sign_in_at = %(now)s where u.id = %(user)s
),
gone as (
  delete from auth.sessions as s where s.user_id = %(user)s and s.refreshed_at <= %(idle_since)s
)
insert into auth.sessions as s (user_id, refreshed_at, user_agent, ip, created_at, updated_at)
values (%(user)s, %(now)s, %(user_agent)s, %(address)s, %(now)s, %(now)s)
returning s.id, s.user_id, s.refresh_token_counter as counter, s.refreshed_at
"""

GET_SESSION = """
select s.id, s.user_id, s.refresh_token_counter as counter, s.refreshed_at
from auth.sessions as s
where s.id = %(id)s
"""

# Of concurrent requests one advances the counter; the others find that it has changed.
ADVANCE_SESSION = """
update auth.sessions as s
set refresh_token_counter = s.refresh_token_counter + 1, refreshed_at = %(now)s,
  user_agent = %(user_agent)s, ip = %(address)s, updated_at = %(now)s
where s.id = %(id)s and s.refresh_token_counter = %(counter)s and s.refreshed_at > %(idle_since)s
returning s.id, s.user_id, s.refresh_token_counter as counter, s.refreshed_at
"""

END_SESSION = "delete from auth.sessions as s where s.id = %(id)s"

END_ALL_SESSIONS = "delete from auth.sessions as s where s.user_id = %(user)s"

END_OTHER_SESSIONS = """
delete from auth.sessions as s where s.user_id = %(user)s and s.id <> %(id)s
"""

# Recovery ------------------------------------------------------------------------------------

START_RECOVERY = """
update auth.users as u
set recovery_token = %(hash)s, recovery_sent_at = %(now)s
where u.email = %(email)s and u.deleted_at is null
  and coalesce(u.recovery_sent_at <= %(last_before)s, true)
"""

# A token is valid once, also for concurrent requests.
USE_RECOVERY = (
    """
update auth.users as u
set recovery_token = null, email_confirmed_at = coalesce(u.email_confirmed_at, %(now)s)
where u.recovery_token = %(hash)s and u.recovery_sent_at > %(sent_after)s and u.deleted_at is null
  and u.email = coalesce(%(email)s, u.email)
returning
"""
    + _USER
)

# Failed attempts -----------------------------------------------------------------------------

# Counts before the password is verified, so that concurrent attempts are all counted. Rows are
# locked in order, to avoid deadlocks.
COUNT_ATTEMPT = """
with forgotten as (
  delete from auth.failed_sign_ins as f
  where f.subject in (
    select o.subject from auth.failed_sign_ins as o
    where o.forgotten_at <= %(now)s and o.subject <> all (%(subjects)s)
    limit 100
    for update skip locked
  )
)
insert into auth.failed_sign_ins as f (subject, failures, forgotten_at)
select s.subject, 1, %(until)s from unnest(%(subjects)s) as s (subject) order by s.subject
on conflict (subject) do update
set failures = case when f.forgotten_at <= %(now)s then 1 else f.failures + 1 end,
  forgotten_at = case
    when f.forgotten_at <= %(now)s then excluded.forgotten_at
    else f.forgotten_at
  end
returning f.subject, f.failures, f.forgotten_at
"""

# Undoes COUNT_ATTEMPT after a success.
FORGET_ATTEMPT = """
with locked as (
  select f.subject from auth.failed_sign_ins as f
  where f.subject = any (%(subjects)s)
  order by f.subject
  for update
)
update auth.failed_sign_ins as f
set failures = case when f.subject = %(cleared)s then 0 else greatest(f.failures - 1, 0) end
from locked as l
where f.subject = l.subject
"""


class AuthDatabase:
    """Runs statements on a few connections of a role that may use schema auth."""

    def __init__(self, url: str) -> None:
        self._pool = connection_pool.ConnectionPool(url, size=_CONNECTIONS)

    async def fetch_all(
        self, row_type: type[T], statement: LiteralString, params: Mapping[str, Any]
    ) -> list[T]:
        """Run a statement, and return its rows as records."""
        async with self._connection() as connection:
            cursor = connection.cursor(row_factory=rows.class_row(row_type))
            return await (await cursor.execute(statement, params)).fetchall()

    async def fetch_one(
        self, row_type: type[T], statement: LiteralString, params: Mapping[str, Any]
    ) -> T | None:
        """Run a statement, and return its first row as a record, None if there is none."""
        return next(iter(await self.fetch_all(row_type, statement, params)), None)

    async def change(self, statement: LiteralString, params: Mapping[str, Any]) -> int:
        """Run a statement, and return how many rows it changed or returned."""
        async with self._connection() as connection:
            return (await connection.execute(statement, params)).rowcount

    async def require_embedded_sign_in(self) -> None:
        """Raise SettingsError for the database of a Supabase project: users sign in there."""
        async with self._connection() as connection:
            row = await (await connection.execute(HAS_EMBEDDED_SIGN_IN)).fetchone()
        if row != (True,):
            raise errors.SettingsError(
                "this database belongs to a Supabase project, which handles sign-in; set "
                "PAGEWARDEN_SUPABASE_URL and PAGEWARDEN_SUPABASE_KEY"
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        with translate_postgres_errors():
            async with asyncio.timeout(_TIMEOUT_SECONDS), self._pool.connection() as connection:
                yield connection


def utc_now() -> dt.datetime:
    """Return the current time; tests replace it."""
    return dt.datetime.now(dt.UTC)
