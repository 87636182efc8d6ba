"""Senseless calls are answered clearly and change nothing; the calls are in bad_input.py."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import bad_input, factories, volumes
from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server


@dataclass(frozen=True, slots=True)
class World:
    """A case with documents in every state, and what the tables say of it."""

    conn: psycopg.AsyncConnection
    ids: dict[str, uuid.UUID | int | str]
    contents: str

    async def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Ask, and take back what the question changed; it must have changed nothing."""
        async with self.conn.transaction(force_rollback=True):
            found = await (await self.conn.execute(query.encode(), self.ids)).fetchall()
            assert await _contents(self.conn) == self.contents
        return found

    async def refusal(self, query: str) -> psycopg.errors.Diagnostic:
        """Expect an error, which changes nothing since it takes everything back."""
        with pytest.raises(psycopg.Error) as caught:
            await self.fetch(query)
        return caught.value.diag


@pytest.fixture(scope="module")
async def world(local_server: server.LocalServer, migrated_template: str) -> AsyncIterator[World]:
    """Share one world, since no test may change it."""
    async with databases.open_clone(local_server, migrated_template) as database:
        factory = await factories.Factory.of(database)
        ids = await _populate(factory)
        yield World(factory.conn, ids, await _contents(factory.conn))


async def _populate(factory: factories.Factory) -> dict[str, uuid.UUID | int | str]:
    owner = await factory.user()
    case = await factory.case(owner)
    claim, letter = await factory.claimed(case), await factory.dead_letter(case)
    upload = await factory.call(
        "request_upload",
        p_case_id=case,
        p_document_name="new",
        p_sha256="0" * 64,
        p_size_bytes=1,
    )
    return await volumes.fill(factory, owner) | {
        "gone": uuid.UUID(int=0),
        "owner": owner,
        "admin": await factory.user(admin=True),
        "case": case,
        "upload": upload["upload_id"],
        "claimed": claim.document_id,
        "token": claim.lock_token,
        "dlq": letter.dlq_id,
        "queued": await factory.queued(case),
        "completed": await factory.completed(case),
        "pending": await factory.queued(case, lane=None),
        "awaiting": await factory.awaiting_file(case),
        "task": await factory.task(),
        "check": await factory.check_job(),
    }


async def _contents(conn: psycopg.AsyncConnection) -> str:
    """Sum up every table of ours, but for statistics."""
    tables = await conn.execute(
        "select oid::regclass::text from pg_class where relkind = 'r' and relname <> 'conflicts' "
        "and relnamespace in ('public'::regnamespace, 'private'::regnamespace) order by 1"
    )
    parts = [
        f"(select coalesce(md5(string_agg(t::text, '' order by t::text)), '-') from {table} as t)"
        for (table,) in await tables.fetchall()
    ]
    found = await conn.execute(f"select concat_ws(' ', {', '.join(parts)})".encode())
    (contents,) = await found.fetchone() or ()
    return str(contents)


def _call(function: str, arguments: dict[str, str]) -> str:
    named = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    return f"select public.{function}({named})"


async def test_senseless_arguments_are_refused(world: World, subtests: pytest.Subtests) -> None:
    """The error is ours, with a SQLSTATE for bad arguments and a hint."""
    for function, sound, senseless in bad_input.SENSELESS:
        for parameter, values in senseless.items():
            for value in values:
                with subtests.test(f"{function}-{parameter}={value[:40]}"):
                    refusal = await world.refusal(_call(function, sound | {parameter: value}))
                    _require_explained(refusal)


def _require_explained(refusal: psycopg.errors.Diagnostic) -> None:
    assert refusal.sqlstate == "22023", refusal.message_primary
    assert refusal.message_hint


async def test_sound_arguments_are_accepted(world: World, subtests: pytest.Subtests) -> None:
    """What is refused above is refused for the one argument that makes no sense."""
    for function, sound, _ in bad_input.SENSELESS:
        with subtests.test(function):
            async with world.conn.transaction(force_rollback=True):
                await world.conn.execute(_call(function, sound).encode(), world.ids)


async def test_what_is_not_there_is_said_to_be_gone(
    world: World, subtests: pytest.Subtests
) -> None:
    """The answer is a value with the name of the error and a message."""
    for call, error in bad_input.GONE.items():
        with subtests.test(call):
            ((answer,),) = await world.fetch(f"select to_jsonb(r) from public.{call} as r")
            assert (answer["success"], answer["error"]) == (False, error)
            assert answer["message"]


async def test_answers_to_many_say_how_little_was_done(
    world: World, subtests: pytest.Subtests
) -> None:
    """Calls that name many things, or ask a question, are answered and change nothing."""
    for call, expected in bad_input.NOTHING_DONE.items():
        with subtests.test(call):
            ((answer,),) = await world.fetch(f"select to_jsonb(r) from public.{call} as r")
            assert answer == (answer | expected if isinstance(answer, dict) else expected)


async def test_malformed_values_inside_json_are_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    """What is no number, date or id is refused as such, even where nothing would match."""
    for call, sqlstate in bad_input.MALFORMED.items():
        with subtests.test(call):
            assert (await world.refusal(f"select public.{call}")).sqlstate == sqlstate


async def test_a_summary_that_counts_pages_leaves_them_alone(world: World) -> None:
    """A number where pages could be, or null where text could be, is no text to keep."""
    lock = {"p_document_id": world.ids["claimed"], "p_lock_token": world.ids["token"]}
    run: dict[str, Any] = lock | {"p_engine": "rapid", "p_version": "1"}
    pages, summary = Jsonb([{"page_number": 1, "text": "kept"}]), Jsonb({"pages": 1, "text": None})
    result = run | {"p_ocr_data": summary, "p_confidence": None, "p_processing_time_ms": 1}
    async with world.conn.transaction(force_rollback=True):
        await factories.call(world.conn, "save_document_pages", **run, p_pages=pages)
        await factories.call(world.conn, "process_ocr_atomic", **result)
        query = "select text from ocr_pages where document_id = %(claimed)s"
        found = await world.conn.execute(query, world.ids)
        assert await found.fetchall() == [("kept",)]


_SENSELESS_INSERTS = [
    {"document_source": "null"},
    {"document_source": "'image'"},
    {"document_source": "'nope'"},
    {"document_name": "null"},
    {"document_name": "' '"},
    {"document_name": bad_input.LONG},
    {"case_id": "%(gone)s"},
    {"status_id": "2"},
    {"status_id": "3"},
    {"status_id": "7"},
    {"priority": "1001"},
    {"sha256": "'nope'"},
    {"dropbox_path": bad_input.LONG},
    {"engine": bad_input.LONG},
    {"language": "''"},
    {"file_extension": bad_input.LONG},
    {"worker_id": bad_input.LONG},
    {"ocr_max_attempts": "0"},
]


async def test_senseless_inserts_into_extraction_queue_are_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    """The view refuses what the functions refuse, with the same SQLSTATE and a hint."""
    for values in _SENSELESS_INSERTS:
        row = {"document_source": "'index'", "document_name": "'new'"} | values
        with subtests.test(str(values)):
            refusal = await world.refusal(
                f"insert into extraction_queue ({', '.join(row)}) "
                f"values ({', '.join(row.values())}) returning id"
            )
            _require_explained(refusal)


_SENSELESS_UPDATES = [
    "status_id = null",
    "status_id = 3",
    "status_id = 4",
    "status_id = 5",
    "status_id = 7",
    "priority = null",
    "priority = 1001",
    "sha256 = 'nope'",
    f"dropbox_path = {bad_input.LONG}",
    f"engine = {bad_input.LONG}",
    "language = ''",
    f"file_extension = {bad_input.LONG}",
    f"worker_id = {bad_input.LONG}",
    "ocr_max_attempts = null",
    "ocr_max_attempts = 0",
    "id = gen_random_uuid()",
    "document_name = 'another'",
    "lock_token = gen_random_uuid()",
]


async def test_senseless_updates_of_extraction_queue_are_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    """A document that waits for its file has few ways to go."""
    for change in _SENSELESS_UPDATES:
        with subtests.test(change):
            refusal = await world.refusal(
                f"update extraction_queue set {change} where id = %(awaiting)s returning id"
            )
            _require_explained(refusal)


async def _refusals(world: World, spellings: dict[str, str]) -> dict[tuple[str, str], str | None]:
    """Try each parameter of a type that has a spelling; its neighbours are null."""
    refusals = {}
    for function, parameters in (await _functions(world)).items():
        for bad, type_ in parameters.items():
            if type_ in spellings:
                arguments = dict.fromkeys(parameters, "null") | {bad: spellings[type_]}
                refusal = await world.refusal(_call(function, arguments))
                refusals[function, bad] = refusal.sqlstate
    return refusals


async def _functions(world: World) -> dict[str, dict[str, str]]:
    """Read the types of all parameters from the catalog."""
    functions = await world.fetch(
        "select proname, proargnames[1:pronargs], proargtypes::regtype[]::text[] from pg_proc "
        "where pronamespace = 'public'::regnamespace"
    )
    return {name: dict(zip(names or (), types, strict=True)) for name, names, types in functions}


@pytest.mark.parametrize(
    ("value", "sqlstate"),
    [(r"""'"a\u0000b"'""", "22P05"), (r"""'"a\ud800b"'""", "22P02"), (r"""'"\udc00"'""", "22P02")],
    ids=["nul", "high surrogate", "low surrogate"],
)
async def test_characters_that_are_none_are_refused(
    world: World, value: str, sqlstate: str
) -> None:
    """JSON can spell what no text can hold; it reaches no function, whichever parameter has it."""
    text = f"({value}::json #>> '{{}}')"

    refusals = await _refusals(
        world, {"text": text, "text[]": f"array[{text}]", "jsonb": f"{value}::jsonb"}
    )

    assert refusals == dict.fromkeys(refusals, sqlstate) != {}


async def test_values_of_a_wrong_type_are_refused(world: World) -> None:
    """Words where numbers, ids, lists or JSON belong reach no function either."""
    numbers, others = ("integer", "bigint", "numeric"), ("boolean", "jsonb", "app_role")
    types = (*numbers, *others, "uuid", "uuid[]", "text[]")

    refusals = await _refusals(world, dict.fromkeys(types, "'nope'"))

    assert refusals == dict.fromkeys(refusals, "22P02") != {}


async def test_every_function_is_tried(world: World) -> None:
    """Whoever adds a function, or a parameter that could be senseless, says how it is refused."""
    tried = {(name, bad) for name, _, senseless in bad_input.SENSELESS for bad in senseless}
    answered = {call.partition("(")[0] for call in bad_input.GONE | bad_input.NOTHING_DONE}

    untried = {
        (function, name)
        for function, parameters in (await _functions(world)).items()
        for name, type_ in parameters.items()
        if name != "p_now"  # the time that tests inject
        and (function, name) not in tried
        and not (type_ == "uuid" and function in answered)
    }

    assert untried == bad_input.TAKES_ANYTHING
