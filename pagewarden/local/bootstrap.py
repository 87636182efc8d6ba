"""Prepare a plain Postgres with the roles, auth schema and queues that Supabase has."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from pagewarden import errors
from pagewarden.local import migrations

if TYPE_CHECKING:
    from typing import LiteralString

_LOGIN_ROLES = ("postgres", "authenticator", "pagewarden_worker")

# The roles are checked as well: they belong to the server and are not copied with the database.
_IS_PREPARED = """
select obj_description(to_regnamespace('auth'), 'pg_namespace') = {}
  and (select count(*) = 6 from pg_roles where rolname in (
    'anon', 'authenticated', 'service_role', 'authenticator', 'pagewarden_worker', 'postgres'))
"""

# Roles that a server may already have; bootstrap.sql does not change them. With more rights they
# would be a risk, with fewer the programs would fail later.
_OTHER_RIGHTS = """
with usual (name, can_login, bypasses_rls, inherits, groups) as (
  values
    ('anon', false, false, null::boolean, '{{}}'::text[]),
    ('authenticated', false, false, null, '{{}}'),
    ('service_role', false, true, null, '{{}}'),
    ('authenticator', true, false, false, '{{anon,authenticated,service_role}}'),
    ('pagewarden_worker', true, false, null, '{{}}')
)
select r.rolname,
  array_remove(array[
    case when r.rolsuper then 'superuser' end,
    case when r.rolcreatedb then 'createdb' end,
    case when r.rolcreaterole then 'createrole' end,
    case when r.rolreplication then 'replication' end,
    case when r.rolbypassrls and not u.bypasses_rls then 'bypassrls' end,
    case when not r.rolbypassrls and u.bypasses_rls then 'nobypassrls' end,
    case when r.rolcanlogin and not u.can_login then 'login' end,
    case when not r.rolcanlogin and u.can_login then 'nologin' end,
    case when r.rolinherit and not u.inherits then 'inherit' end
  ], null),
  array(
    select m.roleid::regrole::text from pg_auth_members as m
    where m.member = r.oid and m.roleid::regrole::text <> all (u.groups) order by 1
  )
from usual as u join pg_roles as r on r.rolname = u.name
where u.name = 'pagewarden_worker' or not {}
order by 1
"""

_DATABASE_DEFAULTS = """
do $$
begin
  execute format(
    'alter database %I set search_path = "$user", public, extensions', current_database());
  -- The schemas an API exposes; the CLI's advisors look at these only.
  execute format('alter database %I set pgrst.db_schemas = ''public''', current_database());
end;
$$
"""

# Tables of a later pgmq.create() belong to its caller, hence the default privileges.
_QUEUE_GRANTS = """
grant usage on schema pgmq to postgres, service_role;
grant all on all tables in schema pgmq to postgres, service_role;
grant all on all sequences in schema pgmq to postgres, service_role;
grant execute on all functions in schema pgmq to postgres, service_role;
alter default privileges for role postgres in schema pgmq grant all on tables to service_role;
alter default privileges for role postgres in schema pgmq grant all on sequences to service_role;
"""


async def bootstrap(url: str, *, password: str | None = None) -> None:
    """Prepare the database for the migrations; repeated calls change nothing.

    The first call needs the URL of a superuser. On a real Supabase only the role of the workers is
    created. Login roles without a password get `password`.
    """
    async with await _connect(url) as conn, conn.transaction():
        await migrations.lock_schema(conn)
        is_supabase = await _is_supabase(conn)
        await _check_roles(conn, is_supabase=is_supabase)
        if is_supabase:
            await _create_worker_role(conn)
            return
        # Repeated only after a change: the script locks tables that are in use.
        if not await _query_boolean(conn, _IS_PREPARED, _compute_fingerprint()):
            await _require_superuser(conn)
            await conn.execute(_load_script())
            await set_database_defaults(conn)
            await _install_queues(conn)
            await conn.execute(
                sql.SQL("comment on schema auth is {}").format(_compute_fingerprint())
            )
        if password is not None:
            await _set_passwords(conn, password)


async def set_database_defaults(conn: psycopg.AsyncConnection) -> None:
    """Set what belongs to the database itself, and is not copied from a template."""
    await conn.execute(_DATABASE_DEFAULTS)


async def _connect(url: str) -> psycopg.AsyncConnection:
    try:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as exc:
        raise errors.DatabaseUnavailable(f"cannot connect to the database: {exc}") from exc


def _load_script() -> sql.SQL:
    return sql.SQL(resources.files("pagewarden.local").joinpath("bootstrap.sql").read_text("utf-8"))


def _compute_fingerprint() -> sql.Literal:
    parts = (_load_script().as_string(), _DATABASE_DEFAULTS, _QUEUE_GRANTS)
    return sql.Literal(
        f"Prepared by Pagewarden, {hashlib.sha256(''.join(parts).encode()).hexdigest()}"
    )


async def _query_boolean(
    conn: psycopg.AsyncConnection, query: LiteralString, *values: sql.Literal
) -> bool:
    row = await (await conn.execute(sql.SQL(query).format(*values))).fetchone()
    return row is not None and row[0] is True


async def _is_supabase(conn: psycopg.AsyncConnection) -> bool:
    query = "select exists (select from pg_roles where rolname = 'supabase_auth_admin')"
    return await _query_boolean(conn, query)


async def _create_worker_role(conn: psycopg.AsyncConnection) -> None:
    query = "select exists (select from pg_roles where rolname = 'pagewarden_worker')"
    if not await _query_boolean(conn, query):
        await conn.execute("create role pagewarden_worker login")


async def _check_roles(conn: psycopg.AsyncConnection, *, is_supabase: bool) -> None:
    """Raise if a role that we use has other rights; the roles of Supabase are not checked."""
    found = await conn.execute(sql.SQL(_OTHER_RIGHTS).format(sql.Literal(is_supabase)))
    rights, remedies = [], []
    for role, attributes, groups in await found.fetchall():
        if attributes:
            rights.append(f"{role} is {' '.join(attributes)}")
            remedies.append(f"alter role {role} {' '.join(map(_negate_attribute, attributes))};")
        if groups:
            rights.append(f"{role} is a member of {', '.join(groups)}")
            remedies.append(f"revoke {', '.join(groups)} from {role};")
    if rights:
        raise errors.Forbidden(
            "roles on this server have different privileges than Pagewarden requires: "
            f"{'; '.join(rights)}; "
            "nothing was changed",
            hint=f'use another server, or run "{" ".join(remedies)}"',
        )


def _negate_attribute(attribute: str) -> str:
    return attribute.removeprefix("no") if attribute.startswith("no") else f"no{attribute}"


async def _require_superuser(conn: psycopg.AsyncConnection) -> None:
    query = "select rolsuper from pg_roles where rolname = current_user"
    if not await _query_boolean(conn, query):
        raise errors.Forbidden(
            f"the role {conn.info.user} does not have the privileges to set up this database",
            sqlstate="42501",
            hint="connect once as a superuser; after that, an ordinary role is enough",
        )


async def _install_queues(conn: psycopg.AsyncConnection) -> None:
    available = "select exists (select from pg_available_extensions where name = 'pgmq')"
    if await _query_boolean(conn, available):
        await conn.execute("create extension if not exists pgmq")
    elif await _query_boolean(conn, "select to_regclass('pgmq.meta') is null"):
        from pgmq import install  # noqa: PLC0415  # imports two drivers, needed once

        # As on Supabase the queues belong to postgres, which may then create more.
        await conn.execute("set local role postgres")
        await conn.execute(sql.SQL(install.get_embedded_install_sql()))
        await conn.execute("reset role")
    await conn.execute(_QUEUE_GRANTS)


async def _set_passwords(conn: psycopg.AsyncConnection, password: str) -> None:
    cursor = await conn.execute(
        "select rolname from pg_authid where rolname = any(%s) and rolpassword is null",
        (list(_LOGIN_ROLES),),
    )
    for (role,) in await cursor.fetchall():
        # Only the verifier is sent, so that no log contains the password.
        verifier = conn.pgconn.encrypt_password(
            password.encode(), role.encode(), b"scram-sha-256"
        ).decode()
        await conn.execute(
            sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(verifier))
        )
