from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pagewarden import errors
from pagewarden.local import bootstrap, cluster, migrations, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases


@pytest.fixture
async def plain_server(pytestconfig: pytest.Config) -> AsyncIterator[server.LocalServer]:
    """Run a server of the test's own, with nothing of Supabase in it."""
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    programs = pytestconfig.option.server_bin
    async with server.open_server(home, bin_dir=programs, durable=False) as local:
        yield local
    shutil.rmtree(home)


async def _create_postgres(local: server.LocalServer, attributes: str) -> None:
    url = local.url(cluster.SUPERUSER)
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute(f"create role postgres login {attributes} password '{local.password}'")


async def _value(conn: psycopg.AsyncConnection, query: str) -> Any:
    row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return row[0]


async def test_roles_have_the_rights_they_have_on_supabase(
    bare_database: databases.Database,
) -> None:
    """The roles exist with Supabase's attributes, and postgres is no superuser."""
    conn = await bare_database.connect()

    found = await (
        await conn.execute(
            "select rolname, rolcanlogin, rolbypassrls, rolsuper, rolinherit from pg_roles "
            "where rolname !~ '^(pg|bootstrap)_' order by rolname"
        )
    ).fetchall()

    assert found == [
        ("anon", False, False, False, True),
        ("authenticated", False, False, False, True),
        ("authenticator", True, False, False, False),
        ("pagewarden_worker", True, False, False, True),
        ("postgres", True, True, False, True),
        ("service_role", False, True, False, True),
        ("supabase_admin", True, True, True, True),
    ]


async def test_postgres_owns_the_database_and_may_create_in_it(
    bare_database: databases.Database,
) -> None:
    """A migration can create schemas, trusted extensions, tables and queues."""
    conn = await bare_database.connect()

    await conn.execute("create schema private")
    await conn.execute("create extension unaccent schema extensions")
    await conn.execute("create table public.pages (owner uuid references auth.users)")
    await conn.execute("select pgmq.create('work')")

    assert await _value(conn, "select unaccent('é')") == "e"


async def test_service_role_may_use_a_queue_and_anon_may_not(
    bare_database: databases.Database,
) -> None:
    """Queues made by a migration are open to service_role alone."""
    conn = await bare_database.connect()
    await conn.execute("select pgmq.create('work')")

    async with bare_database.acting_as("service_role") as service:
        sent = await _value(service, "select pgmq.send('work', '{}')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with bare_database.acting_as("anon") as anon:
            await anon.execute("select pgmq.send('work', '{}')")

    assert sent == 1


async def test_claims_are_what_the_auth_functions_return(
    bare_database: databases.Database,
) -> None:
    """uid(), role(), email() and jwt() read the claims of the transaction."""
    user = uuid.uuid4()
    claims = {"sub": str(user), "role": "authenticated", "email": "a@example.org"}
    conn = await bare_database.connect(claims=claims)

    assert await _value(conn, "select auth.uid()") == user
    assert await _value(conn, "select auth.role()") == "authenticated"
    assert await _value(conn, "select auth.email()") == "a@example.org"
    assert await _value(conn, "select auth.jwt()") == claims


@pytest.mark.parametrize("function", ["uid", "role", "email", "jwt"])
async def test_no_claims_mean_null(bare_database: databases.Database, function: str) -> None:
    """Without claims, and after the transaction that had some, the auth functions are null."""
    conn = await bare_database.connect()
    fresh = await _value(conn, f"select auth.{function}()")
    async with conn.transaction():
        await conn.execute("set local request.jwt.claims = '{}'")

    assert fresh is None
    assert await _value(conn, "select current_setting('request.jwt.claims')") == ""
    assert await _value(conn, f"select auth.{function}()") is None


async def test_single_claim_settings_are_read_too(bare_database: databases.Database) -> None:
    """The older form, one setting per claim, wins over the JSON."""
    user = uuid.uuid4()
    conn = await bare_database.connect(claims={"sub": str(uuid.uuid4()), "role": "anon"})

    await conn.execute(f"set request.jwt.claim.sub = '{user}'")
    await conn.execute("set request.jwt.claim.role = 'service_role'")

    assert await _value(conn, "select auth.uid()") == user
    assert await _value(conn, "select auth.role()") == "service_role"


@pytest.mark.parametrize("who", ["anon", "service_role", "authenticated"])
async def test_users_are_hidden_from_the_api(bare_database: databases.Database, who: str) -> None:
    """No role of the API reads auth.users."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with bare_database.acting_as(who) as conn:
            await conn.execute("select from auth.users")


async def test_bootstrap_again_changes_nothing(bare_database: databases.Database) -> None:
    """A second bootstrap succeeds and keeps the users and the password."""
    user = await bare_database.create_user()

    url = bare_database.url(cluster.SUPERUSER)
    await bootstrap.bootstrap(url, password="another password")

    conn = await bare_database.connect("pagewarden_worker")
    assert await _value(conn, "select current_user") == "pagewarden_worker"
    conn = await bare_database.connect()
    assert await _value(conn, "select id from auth.users") == user


async def test_bootstrap_again_needs_no_superuser(bare_database: databases.Database) -> None:
    """Once a superuser has prepared the database, an ordinary role may start programs on it."""
    await bootstrap.bootstrap(bare_database.url("postgres"))


async def test_programs_that_start_at_once_do_not_collide(
    plain_server: server.LocalServer, tmp_path: Path
) -> None:
    """One program bootstraps while another migrates already, and both grant on the same schema."""
    (tmp_path / "20250101000000_rights.sql").write_text("grant usage on schema public to anon;\n")

    async def start() -> list[str]:
        admin = plain_server.url(cluster.SUPERUSER)
        await bootstrap.bootstrap(admin, password=plain_server.password)
        return await migrations.migrate(plain_server.url(), folder=tmp_path)

    applied = await asyncio.gather(*(start() for _ in range(6)))

    assert sorted(applied) == [[]] * 5 + [["20250101000000_rights"]]


async def test_bootstraps_at_once_do_not_harm_each_other(
    plain_server: server.LocalServer,
) -> None:
    """Several bootstraps of two databases, none of which has the roles yet, all succeed."""
    names = ["postgres", "other"]
    admin = plain_server.url(cluster.SUPERUSER)
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as conn:
        await conn.execute("create database other")

    urls = [plain_server.url(cluster.SUPERUSER, name) for name in names * 3]
    await asyncio.gather(*map(bootstrap.bootstrap, urls))

    for name in names:
        url = plain_server.url(cluster.SUPERUSER, name)
        async with await psycopg.AsyncConnection.connect(url) as conn:
            assert await _value(conn, "select auth.uid() is null")


async def test_superuser_named_postgres_stays_one(plain_server: server.LocalServer) -> None:
    """On somebody's own Postgres the usual superuser bootstraps, and keeps its rights."""
    await _create_postgres(plain_server, "superuser")

    await bootstrap.bootstrap(plain_server.url())

    async with await psycopg.AsyncConnection.connect(plain_server.url()) as conn:
        assert await _value(conn, "select rolsuper from pg_roles where rolname = 'postgres'")
        assert await _value(conn, "select auth.uid() is null")


async def test_real_supabase_only_gets_the_role_of_the_workers(
    plain_server: server.LocalServer,
) -> None:
    """Where Supabase Auth is at home nothing else is touched, and no superuser is needed."""
    await _create_postgres(plain_server, "createrole")
    async with await psycopg.AsyncConnection.connect(plain_server.url()) as conn:
        await conn.execute("create role supabase_auth_admin")

    for _ in range(2):
        await bootstrap.bootstrap(plain_server.url())

    async with await psycopg.AsyncConnection.connect(plain_server.url()) as conn:
        roles = await conn.execute(
            "select rolname from pg_roles where rolname !~ '^pg_' order by 1"
        )
        assert [name for (name,) in await roles.fetchall()] == [
            *("pagewarden_worker", "postgres", "supabase_admin", "supabase_auth_admin")
        ]
        assert await _value(conn, "select to_regnamespace('auth') is null")


async def test_bootstrap_needs_a_superuser(local_server: server.LocalServer) -> None:
    """An ordinary role is refused with advice, not with a half-made database."""
    name = f"bootstrap_{uuid.uuid4().hex[:8]}"
    admin = local_server.url(cluster.SUPERUSER)
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as conn:
        await conn.execute(f"create database {name} template template0")
        await conn.execute(f"create role {name} login password '{local_server.password}'")
        try:
            with pytest.raises(errors.Forbidden, match="as a superuser"):
                await bootstrap.bootstrap(local_server.url(name, name))
        finally:
            await conn.execute(f"drop database {name} with (force)")
            await conn.execute(f"drop role {name}")


async def test_bootstrap_says_when_nobody_answers() -> None:
    """An unreachable database is an outage."""
    with pytest.raises(errors.DatabaseUnavailable):
        await bootstrap.bootstrap("postgresql://nobody@127.0.0.1:1/postgres")


async def _execute(url: str, *statements: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        for statement in statements:
            await conn.execute(statement.encode())


@pytest.mark.parametrize("is_supabase", [False, True], ids=["plain", "supabase"])
async def test_roles_with_other_rights_are_refused_and_the_remedy_helps(
    plain_server: server.LocalServer, *, is_supabase: bool
) -> None:
    """A role of ours that exists already gets no rights by accident, and keeps what it has."""
    admin = plain_server.url(cluster.SUPERUSER)
    await _execute(
        admin,
        "create role pagewarden_worker superuser nologin",
        "create role anon bypassrls",
        "create role service_role",
        "create role authenticator login",
        "grant pg_read_all_data to anon",
    )
    if is_supabase:
        await _execute(admin, "create role supabase_auth_admin")

    with pytest.raises(errors.Forbidden, match="nothing was changed") as caught:
        await bootstrap.bootstrap(admin)

    worker = "pagewarden_worker is superuser nologin"
    others = ("anon is bypassrls", "member of pg_read_all_data", "service_role is nobypassrls")
    assert worker in str(caught.value)
    assert [text in str(caught.value) for text in others] == [not is_supabase] * len(others)
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as conn:
        assert await _value(conn, "select to_regnamespace('auth') is null")
        assert await _value(conn, "select count(*) = 0 from pg_roles where rolname = 'postgres'")
    assert caught.value.hint is not None
    await _execute(admin, *caught.value.hint.split('"')[1].split(";"))
    await bootstrap.bootstrap(admin)


async def test_roles_with_the_usual_rights_may_be_there(plain_server: server.LocalServer) -> None:
    """A second database of the same server, or roles an operator made, are no reason to stop."""
    admin = plain_server.url(cluster.SUPERUSER)
    await _execute(
        admin,
        "create role pagewarden_worker login noinherit",
        "create role anon",
        "create role authenticator login noinherit",
        "grant anon to authenticator",
    )

    await bootstrap.bootstrap(admin)
