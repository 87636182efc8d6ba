"""What rpc() and select() promise, over both transports, on a real Postgres."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from pagewarden import errors
from pagewarden.database import Database, User, connect_direct, connect_http, statements
from pagewarden.database.table import Table
from tests.support import databases
from tests.support import lite as lites

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server

OWNER = "6f0c1c9e-0000-4000-8000-00000000000a"
STRANGER = "6f0c1c9e-0000-4000-8000-00000000000c"

_SCHEMA = Path(__file__).with_name("contract.sql")


@dataclass(frozen=True, slots=True)
class Stack:
    """A database, and the two ways to it, one of which needs the packages of Node."""

    database: databases.Database
    _lite: lites.Lite | None

    @property
    def lite(self) -> lites.Lite:
        """The way over HTTP; without it the test is skipped."""
        return self._lite or pytest.skip("@supabase/lite is not installed; make test installs it")


@pytest.fixture(scope="module")
async def stack(local_server: server.LocalServer, bare_template: str) -> AsyncIterator[Stack]:
    """Share one database and one Lite, which learns the schema when it starts."""
    async with (
        databases.open_clone(local_server, bare_template) as cloned,
        contextlib.AsyncExitStack() as exits,
    ):
        connection = await cloned.connect()
        await connection.execute(sql.SQL(_SCHEMA.read_text()))
        # Not the time zone in which times are handed out.
        zone = sql.SQL("alter database {} set timezone to 'Asia/Tokyo'")
        await connection.execute(zone.format(sql.Identifier(cloned.name)))
        lite = lites.run_lite(cloned.tcp_url("authenticator")) if lites.is_installed() else None
        yield Stack(cloned, await exits.enter_async_context(lite) if lite else None)


@pytest.fixture(params=["direct", "http"])
async def db(request: pytest.FixtureRequest, stack: Stack) -> AsyncIterator[Database]:
    """Connect as service role, over one transport after the other."""
    if request.param == "direct":
        connected: Database = await connect_direct(stack.database.url())
    else:
        connected = connect_http(stack.lite.url, stack.lite.key)
    async with connected:
        yield connected


def _user(user_id: str) -> User:
    return User(user_id, lites.make_token(user_id))


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("next_number", {"p_number": 41}, 42),
        ("next_number", {"p_number": "41"}, 42),
        ("next_number", {"p_number": None}, None),
        ("same_json", {"p_json": {"a": [1, 2.5, None, "é"]}}, {"a": [1, 2.5, None, "é"]}),
        ("same_json", {"p_json": []}, []),
        ("same_json", {"p_json": False}, False),
        ("same_json", {"p_json": None}, None),
        ("nothing", {}, None),
        ("numbers", {"p_count": 2}, [1, 2]),
        ("numbers", {"p_count": 0}, []),
        ("one_column", {"p_count": 2}, [{"number": 1}, {"number": 2}]),
        ("one_column", {"p_count": 0}, []),
        ("one_pair", {"p_number": 1}, {"number": 1, "label": "label"}),
        ("two_results", {"p_number": 3}, {"double": 6, "half": 1.5}),
    ],
)
async def test_rpc_returns_what_the_function_returns(
    db: Database, name: str, params: dict[str, Any], expected: object
) -> None:
    """A value is a value, a row a dict, a set a list, and void None."""
    assert await db.rpc(name, **params) == expected


async def test_rpc_returns_every_type_as_json_has_it(db: Database) -> None:
    """Ids, times and arrays look the same whichever way they came."""
    rows = await db.rpc("every_type", p_count=1)

    assert rows == [
        {
            "id": "6f0c1c9e-0000-4000-8000-000000000001",
            "at": "2026-01-02T01:04:05.678901+00:00",
            "day": "2026-01-02",
            "amount": 12.5,
            "share": 0.1,
            "large": 9007199254740991,
            "flag": True,
            "label": 'déjà "vu"',
            "labels": ["a", "b,c", '{"d"}'],
            "doc": {"k": [1, None]},
            "missing": None,
        }
    ]


async def test_rpc_passes_every_type_of_argument(db: Database) -> None:
    """Postgres reads each argument as the type the function wants."""
    sent = {
        "text": 'it\'s \\ 100% "quoted" {x} \u2028 😀',
        "texts": ["a", "b,c", 'd"e', ""],
        "json": {"k": ["\\u0000", 1.5, None]},
        "id": OWNER,
        "number": -0.25,
        "flag": False,
        "at": "2026-01-02T03:04:05+00:00",
    }

    assert await db.rpc("echo", **{f"p_{key}": value for key, value in sent.items()}) == sent


async def test_rpc_uses_the_defaults_of_arguments_left_out(db: Database) -> None:
    """Only what is given is sent."""
    answer = await db.rpc("echo", p_text=5)

    assert answer["text"] == "5"
    assert answer["texts"] is None


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("22023", errors.InvalidArgument),
        ("23514", errors.InvalidArgument),
        ("42501", errors.Forbidden),
        ("40001", errors.Conflict),
        ("40P01", errors.Conflict),
        ("55P03", errors.Conflict),
        ("53300", errors.DatabaseUnavailable),
        ("57P03", errors.DatabaseUnavailable),
        ("P0001", errors.DatabaseError),
    ],
)
async def test_error_of_a_function_becomes_ours_by_its_sqlstate(
    db: Database, sqlstate: str, expected: type[errors.DatabaseError]
) -> None:
    """The class says what to do; code, message and hint come along."""
    with pytest.raises(errors.DatabaseError) as caught:
        await db.rpc("fail", p_sqlstate=sqlstate)

    assert type(caught.value) is expected
    assert caught.value.sqlstate == sqlstate
    assert caught.value.hint == "do it differently"
    assert "it failed" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params", "sqlstate"),
    [
        ("no_such_function", {}, "42883"),
        ("next_number", {"p_wrong": 1}, "42883"),
        ("next_number", {}, "42883"),
        ("next_number", {"p_number": "many"}, "22P02"),
        ("next_number", {"p_number": 2**40}, "22003"),
        ("echo", {"p_id": "no uuid"}, "22P02"),
        ("no such name", {}, "42602"),
        ("echo", {"p_text; drop": "x"}, "42602"),
    ],
)
async def test_call_that_makes_no_sense_is_refused(
    db: Database, name: str, params: dict[str, Any], sqlstate: str
) -> None:
    """Whoever finds the mistake, it is an invalid call with a SQLSTATE."""
    with pytest.raises(errors.InvalidArgument) as caught:
        await db.rpc(name, **params)

    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("value", "sqlstate", "word"),
    [
        ("a\0b", "22021", "NUL"),
        ("half \ud83d", "22021", "surrogate"),
        ({"deep": [{"er": "a\0b"}]}, "22021", "NUL"),
        ({"a\0key": 1}, "22021", "NUL"),
        (["half \udc00"], "22021", "surrogate"),
        (float("nan"), "22P02", "JSON"),
        ([float("-inf")], "22P02", "JSON"),
        (b"bytes", "22023", "JSON"),
    ],
)
async def test_value_that_postgres_cannot_store_is_refused(
    db: Database, value: object, sqlstate: str, word: str
) -> None:
    """The error names the argument and what is wrong with it."""
    with pytest.raises(errors.InvalidArgument, match=f"p_json .*{word}") as caught:
        await db.rpc("echo", p_json=value)

    assert caught.value.sqlstate == sqlstate


async def test_filter_that_postgres_cannot_read_is_refused(db: Database) -> None:
    """Values in where are checked like arguments."""
    with pytest.raises(errors.InvalidArgument, match=r"body .*NUL"):
        await db.select(Table[Any]("notes"), where={"body": ["fine", "a\0b"]})


async def test_service_role_sees_everything(db: Database) -> None:
    """Without acting_as a call is made as service_role, whom RLS does not bind."""
    assert await db.rpc("whoami") == {
        "role": "service_role",
        "uid": None,
        "claim": "service_role",
    }
    assert len(await db.select(Table[Any]("notes"))) == 4


async def test_user_sees_what_is_theirs(db: Database) -> None:
    """Acting as a user means the role authenticated and the id of the user."""
    as_owner = db.acting_as(_user(OWNER))

    assert await as_owner.rpc("whoami") == {
        "role": "authenticated",
        "uid": OWNER,
        "claim": "authenticated",
    }
    assert [note["id"] for note in await as_owner.select(Table[Any]("notes"), order="id")] == [1, 2]


async def test_stranger_sees_nothing_and_is_forbidden_the_rest(db: Database) -> None:
    """Row-level security hides rows, missing grants refuse with 42501."""
    as_stranger = db.acting_as(_user(STRANGER))

    assert await as_stranger.select(Table[Any]("notes")) == []
    for refused in (as_stranger.rpc("forbidden"), as_stranger.rpc("promise", p_id=1, p_kept_by=1)):
        with pytest.raises(errors.Forbidden) as caught:
            await refused
        assert caught.value.sqlstate == "42501"


async def test_acting_as_a_user_leaves_the_service_role_alone(db: Database) -> None:
    """Identities share connections and never leak into one another."""
    users = [f"6f0c1c9e-0000-4000-8000-{number:012}" for number in range(20)]
    identities = [db, *(db.acting_as(_user(user)) for user in users)]

    answers = await asyncio.gather(*(who.rpc("whoami") for who in identities * 3))

    assert [answer["uid"] for answer in answers] == [None, *users] * 3


async def test_token_that_cannot_be_read_is_forbidden(db: Database) -> None:
    """A damaged token is an error of ours."""
    with pytest.raises(errors.Forbidden) as caught:
        await db.acting_as(User(OWNER, "not.a.token")).rpc("whoami")

    assert caught.value.sqlstate == "28000"


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, [1, 2, 3, 4]),
        ({"where": {"id": 2}}, [2]),
        ({"where": {"id": [1, 3, 9]}}, [1, 3]),
        ({"where": {"id": []}}, []),
        ({"where": {"owner": None}}, [4]),
        ({"where": {"owner": OWNER, "done": False}}, [2]),
        ({"where": {"body": 'with "quotes", (brackets) and \\'}}, [2]),
        ({"where": {"body": ['with "quotes", (brackets) and \\', "first"]}}, [1, 2]),
        ({"where": {"body": ""}}, [4]),
        ({"where": {"body": [""]}}, [4]),
        ({"order": "created_at.desc"}, [4, 3, 2, 1]),
        ({"order": "done.desc,id.desc", "limit": 2}, [1, 4]),
        ({"limit": 0}, []),
    ],
)
async def test_select_returns_what_was_asked_for(
    db: Database, query: dict[str, Any], ids: list[int]
) -> None:
    """Filters, order and limit mean the same over both transports."""
    rows = await db.select(Table[Any]("notes"), **({"order": "id"} | query))

    assert [row["id"] for row in rows] == ids


async def test_select_returns_the_columns_asked_for(db: Database) -> None:
    """Columns come as JSON has them."""
    rows = await db.select(Table[Any]("notes"), columns="id, created_at", where={"id": 1})

    assert rows == [{"id": 1, "created_at": "2026-01-01T00:00:00+00:00"}]


@pytest.mark.parametrize(
    ("table", "query", "sqlstate"),
    [
        ("no_such_table", {}, "42P01"),
        ("notes", {"columns": "no_such_column"}, "42703"),
        ("notes", {"where": {"no_such_column": 1}}, "42703"),
        ("notes", {"where": {"id": "x"}}, "22P02"),
        ("notes", {"where": {"id": [None]}}, "22023"),
        ("notes", {"where": {"body": {"a": 1}}}, "22023"),
        ("notes", {"limit": -1}, "2201W"),
        ("notes", {"order": "id.upwards"}, "42601"),
        ("notes", {"columns": "id,owner(email)"}, "42602"),
        ("notes;", {}, "42602"),
    ],
)
async def test_select_that_makes_no_sense_is_refused(
    db: Database, table: str, query: dict[str, Any], sqlstate: str
) -> None:
    """What only one transport could do is refused by both."""
    with pytest.raises(errors.InvalidArgument) as caught:
        await db.select(Table[Any](table), **query)

    assert caught.value.sqlstate == sqlstate


async def test_table_without_a_grant_is_forbidden(db: Database) -> None:
    """A signed-in user who may not read a table learns so."""
    with pytest.raises(errors.Forbidden) as caught:
        await db.acting_as(_user(OWNER)).select(Table[Any]("promises"))

    assert caught.value.sqlstate == "42501"


async def test_constraint_checked_at_the_end_undoes_the_call(db: Database) -> None:
    """A call whose transaction cannot be completed raises, and nothing is kept."""
    with pytest.raises(errors.InvalidArgument) as caught:
        await db.rpc("promise", p_id=7, p_kept_by=8)

    assert caught.value.sqlstate == "23503"
    assert await db.select(Table[Any]("promises"), where={"id": 7}) == []


async def test_many_calls_at_once_each_get_their_own_answer(db: Database) -> None:
    """More calls than connections wait for one another and are not mixed up."""
    answers = await asyncio.gather(*(db.rpc("next_number", p_number=n) for n in range(60)))

    assert answers == list(range(1, 61))


async def test_direct_login_that_is_no_member_calls_as_itself(stack: Stack) -> None:
    """pagewarden_worker needs no other role, and cannot act as anybody."""
    async with await connect_direct(stack.database.url("pagewarden_worker")) as worker:
        assert await worker.rpc("next_number", p_number=1) == 2
        with pytest.raises(errors.Forbidden):
            await worker.select(Table[Any]("notes"))
        with pytest.raises(errors.Forbidden):
            await worker.acting_as(_user(OWNER)).rpc("next_number", p_number=1)


async def test_direct_user_is_never_more_than_authenticated(stack: Stack) -> None:
    """A token that nobody signed cannot raise its bearer, nor make somebody else of them."""
    forged = lites.make_token(STRANGER, role="service_role")
    async with await connect_direct(stack.database.url()) as service:
        answer = await service.acting_as(User(OWNER, forged)).rpc("whoami")

    assert answer == {"role": "authenticated", "uid": OWNER, "claim": "authenticated"}


async def test_direct_settings_end_with_the_call(stack: Stack) -> None:
    """Behind a transaction pooler the next call on the connection may be anybody's."""
    connection = await stack.database.connect()
    await connection.execute(
        statements.make_settings_statement({"role": "anon", "request.jwt.claims": "{}"})
    )

    found = await connection.execute(
        "select current_user, current_setting('request.jwt.claims', true)"
    )
    assert await found.fetchone() == ("postgres", "")


async def test_direct_call_finds_a_function_that_was_changed(
    bare_database: databases.Database,
) -> None:
    """A migration under a running program does not make its calls fail."""
    owner = await bare_database.connect()
    await owner.execute("create function public.grown(p_a int) returns int return p_a")
    async with await connect_direct(bare_database.url()) as service:
        assert await service.rpc("grown", p_a=1) == 1
        await owner.execute("drop function public.grown")
        await owner.execute("create function public.grown(p_a text) returns text return p_a || '!'")
        assert await service.rpc("grown", p_a="x") == "x!"


async def test_http_user_without_a_token_is_refused(stack: Stack) -> None:
    """Over HTTP nobody can act as a user who has not signed in."""
    async with connect_http(stack.lite.url, stack.lite.key) as service:
        with pytest.raises(errors.Forbidden):
            service.acting_as(User(OWNER))


async def test_http_token_that_expired_is_forbidden(stack: Stack) -> None:
    """The gateway refuses an expired token, which is no outage."""
    expired = User(OWNER, lites.make_token(OWNER, expires_in=-60))
    async with connect_http(stack.lite.url, stack.lite.key) as service:
        with pytest.raises(errors.Forbidden):
            await service.acting_as(expired).rpc("whoami")


async def test_http_key_that_is_wrong_is_forbidden(stack: Stack) -> None:
    """An answer of the gateway itself, without a SQLSTATE, is understood too."""
    async with connect_http(stack.lite.url, "sb_secret_wrong") as service:
        with pytest.raises(errors.Forbidden):
            await service.rpc("whoami")


async def test_lite_changes_no_rights(stack: Stack) -> None:
    """The tests can trust what they find out about rights."""
    async with await psycopg.AsyncConnection.connect(stack.database.url()) as connection:
        found = await connection.execute("select relacl from pg_class where relname = 'secrets'")
        assert await found.fetchone() == (None,)


async def test_rows_are_written_and_given_back(db: Database) -> None:
    """One is added, and those that a condition names are changed; the others are not."""
    body = 'it\'s \\ 100% "quoted" {x}'
    for number in (1, 2):
        added = await db.insert(
            Table[Any]("drafts"), {"id": number, "body": body, "labels": ["a", "b,c"]}
        )
        assert added == {"id": number, "body": body, "labels": ["a", "b,c"], "done": False}
    changed = await db.update(
        Table[Any]("drafts"), {"done": True, "body": None}, where={"id": [2, 3]}
    )
    assert changed == [{"id": 2, "body": None, "labels": ["a", "b,c"], "done": True}]
    assert await db.update(Table[Any]("drafts"), {"done": True}, where={"id": 9}) == []
    (kept,) = await db.select(Table[Any]("drafts"), where={"id": 1})
    assert kept["body"] == body
    await db.update(Table[Any]("drafts"), {"done": False}, where={"id": [1, 2]})
    await db.rpc("forget_drafts")


async def test_senseless_writes_are_refused_before_they_are_sent(db: Database) -> None:
    """Without a condition, without a value, or with a name that is none."""
    for values, where in (({"done": True}, {}), ({}, {"id": 1}), ({"a;b": 1}, {"id": 1})):
        with pytest.raises(errors.InvalidArgument):
            await db.update(Table[Any]("drafts"), values, where=where)
    with pytest.raises(errors.InvalidArgument):
        await db.insert(Table[Any]("drafts"), {})
    with pytest.raises(errors.Forbidden):
        await db.acting_as(_user(OWNER)).insert(Table[Any]("drafts"), {"id": 7})
