"""Stand-ins for what only Supabase has: pg_net, Vault and pg_cron, with their real signatures.

They write down what they are asked for, and do nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.database import queries

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

URL = "https://project.example.org"
KEY = "sb_secret_stand_in"

_PG_NET = """
    create schema net;
    create table net.sent (
      id bigint generated always as identity, url text, body jsonb, headers jsonb, timeout integer
    );
    create function net.http_post(
      url text, body jsonb default '{}'::jsonb, params jsonb default '{}'::jsonb,
      headers jsonb default '{"Content-Type": "application/json"}'::jsonb,
      timeout_milliseconds int default 5000
    )
    returns bigint language sql volatile as $$
      insert into net.sent (url, body, headers, timeout)
      values ($1, $2, $4, $5) returning id
    $$
"""
_VAULT = """
    create schema vault;
    create table vault.secrets (name text primary key, secret text);
    create view vault.decrypted_secrets as
    select name, secret as decrypted_secret from vault.secrets
"""
_PG_CRON = """
    create schema cron;
    create table cron.job (
      jobid bigint generated always as identity, schedule text not null, command text not null,
      active boolean not null default true, jobname text unique
    );
    create function cron.schedule(job_name text, schedule text, command text)
    returns bigint language sql volatile as $$
      insert into cron.job (jobname, schedule, command) values ($1, $2, $3)
      on conflict (jobname) do update
      set schedule = excluded.schedule, command = excluded.command
      returning jobid
    $$;
    create function cron.unschedule(job_name text) returns bool language plpgsql as $$
    begin
      delete from cron.job where jobname = job_name;
      if not found then
        raise exception 'could not find valid entry for job ''%''', job_name;
      end if;
      return true;
    end;
    $$
"""


async def install_pg_net(conn: psycopg.AsyncConnection, **secrets: str) -> None:
    """Put pg_net there, and a Vault with these secrets."""
    await conn.execute(_PG_NET)
    await conn.execute(_VAULT)
    for name, secret in secrets.items():
        await conn.execute("insert into vault.secrets values (%s, %s)", (name, secret))


async def install_pg_cron(database: databases.Database) -> None:
    """Put pg_cron there; the catalog lists it as an extension, so that the migrations use it."""
    await (await database.connect()).execute(_PG_CRON)
    admin = await database.connect("supabase_admin")
    await admin.execute("set allow_system_table_mods = on")
    await admin.execute(
        "insert into pg_extension"
        " (oid, extname, extowner, extnamespace, extrelocatable, extversion)"
        " select 99999, 'pg_cron', nspowner, oid, false, '1.6'"
        " from pg_namespace where nspname = 'cron'"
    )


async def sent(conn: psycopg.AsyncConnection) -> list[dict[str, Any]]:
    """Read the requests that pg_net was asked to send."""
    query = "select url, body, headers, timeout from net.sent order by id"
    return await queries.rows(conn, query)


async def jobs(conn: psycopg.AsyncConnection) -> dict[str, tuple[str, str]]:
    """Read schedule and command of every job."""
    found = await queries.rows(conn, "select jobname, schedule, command from cron.job")
    return {row["jobname"]: (row["schedule"], row["command"]) for row in found}
