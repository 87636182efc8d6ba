"""What the sign-in says to Postgres; each statement is a transaction of its own."""

from __future__ import annotations

_USER = """
  u.id, u.email, u.encrypted_password, u.raw_app_meta_data as app_metadata,
  u.raw_user_meta_data as user_metadata, u.email_confirmed_at, u.last_sign_in_at, u.banned_until,
  u.created_at, u.updated_at
"""

IS_AT_HOME = "select to_regclass('auth.failed_sign_ins') is not null"

# People --------------------------------------------------------------------------------------

FIND_USER = (
    "select" + _USER + "from auth.users as u where u.email = %(email)s and u.deleted_at is null"
)

GET_USER = "select" + _USER + "from auth.users as u where u.id = %(id)s and u.deleted_at is null"

LIST_PEOPLE = """
select u.email, u.created_at, u.last_sign_in_at,
  exists (
    select from public.user_roles as r where r.user_id = u.id and r.role = 'admin'
  ) as is_admin
from auth.users as u
where u.email is not null and u.deleted_at is null
order by u.email
"""

# Nobody is added where the address is taken.
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

TAKE_ROLE = """
delete from public.user_roles as r
using auth.users as u
where u.email = %(email)s and r.user_id = u.id and r.role = 'admin'
"""

REMOVE_USER = "delete from auth.users as u where u.email = %(email)s"

# Whoever knew the old password is signed out, except for the session that changes it.
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

BEGIN_SESSION = """
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

# Of several at once one advances the counter; the others find that it has moved.
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

# A token lets in once, whoever is quicker.
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

# Counted before the password is looked at, so that many tries at once are not one. Rows are
# locked in order, or two of these could wait for each other.
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

# It did not fail after all.
UNCOUNT_ATTEMPT = """
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
