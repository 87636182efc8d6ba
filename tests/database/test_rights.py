"""Who may read, write and call what, tried for real; the expectations are in rights.py."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, rights, volumes
from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.local import server


REFUSED = "42501"
NOT_WRITABLE = "55000"

Ids = dict[str, uuid.UUID | int | str]


@dataclass(frozen=True, slots=True)
class World:
    """Two cases with documents in every state, and everybody who may come along."""

    factory: factories.Factory
    ids: Ids
    sessions: Mapping[str, psycopg.AsyncConnection]

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask with all rights."""
        found = await self.factory.conn.execute(query.encode(), self.ids)
        return await found.fetchall()

    async def attempt(self, actor: str, statement: str) -> list[tuple[Any, ...]] | str:
        """Run a statement and take it back; the answer is its rows or its SQLSTATE."""
        conn = self.sessions[actor]
        try:
            async with conn.transaction(force_rollback=True):
                found = await conn.execute(statement.encode(), self.ids)
                return await found.fetchall() if found.description else []
        except psycopg.Error as error:
            return error.sqlstate or repr(error)


@pytest.fixture(scope="module")
async def world(local_server: server.LocalServer, migrated_template: str) -> AsyncIterator[World]:
    """Share one world, which no test changes."""
    async with databases.open_clone(local_server, migrated_template) as database:
        factory = await factories.Factory.of(database)
        ids = await _populate(factory)
        yield World(factory, ids, await _sign_in(database, ids))


async def _populate(factory: factories.Factory) -> Ids:
    ids = {name: await factory.user() for name in ("stranger", "viewer", "editor", "owner")}
    ids["admin"] = await factory.user(admin=True)
    query = "insert into user_roles (user_id, role) values (%s, 'user')"
    await factory.conn.execute(query, (ids["owner"],))
    jobs = await _jobs(factory, ids)
    await factory.call("pause_lane", p_lane="check", p_reason="for the test")
    await factory.call("silence_alerts", p_minutes=60, p_reason="for the test")
    await factory.call("test_alert", p_rule="disk-warning")
    await factory.conn.execute(
        "insert into alerts (rule, severity, value, worst, threshold, broken_since, fired_at) "
        "values ('disk-warning', 'warning', 0, 0, 0, now(), now())"
    )
    await factory.call("lead_pool", p_process="p", p_lease_seconds=3600)
    await _fill(factory, await factory.case(editor=await factory.user()))
    case = await factory.case(ids["owner"], viewer=ids["viewer"], editor=ids["editor"])
    await volumes.fill(factory, await factory.user())
    filled = await _fill(factory, case)
    for user in (None, ids["owner"]):
        cursor = await factory.conn.execute(
            "insert into pending_uploads (case_id, name, sha256, size_bytes, requested_by, "
            "expires_at) values (%s, 'new', repeat('0', 64), 1, %s, now() + interval '1 day') "
            "returning id",
            (case, user),
        )
        ((ids["upload"],),) = await cursor.fetchall()
    return ids | jobs | filled | await volumes.fill(factory, ids["owner"])


async def _jobs(factory: factories.Factory, ids: Mapping[str, uuid.UUID]) -> Ids:
    """Submit a job for nobody, and one for the owner, who shares it."""
    jobs = [await factory.check_job(p_callback_url="https://example.org/") for _ in range(2)]
    for job in jobs:
        await _check(factory, await _picture(factory, job, "a.png"))
    query = "update cases set user_id = %s where id = %s"
    await factory.conn.execute(query, (ids["owner"], jobs[1]))
    for role in ("viewer", "editor"):
        await factory.call("share_case", p_case_id=jobs[1], p_user_id=ids[role], p_role=role)
    claim = await _picture(factory, jobs[1], "b.png")
    picture, seal = claim.document_id, claim.lock_token
    return {"check": jobs[1], "picture": picture, "seal": seal, "new": uuid.uuid4()}


async def _picture(factory: factories.Factory, job: uuid.UUID, name: str) -> factories.Claim:
    """Let a worker take a picture of a job."""
    query = "select id from documents where case_id = %s and name = %s"
    (document,) = await (await factory.conn.execute(query, (job, name))).fetchone() or ()
    answer = await factory.call("acquire_document_lock", p_document_id=document, p_worker_id="w")
    return factories.Claim(document, uuid.UUID(answer["lock_token"]))


async def _check(factory: factories.Factory, claim: factories.Claim) -> None:
    """Read and check a picture."""
    key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    run = {"p_engine": "rapid", "p_version": "1", "p_profile": "balanced"}
    page = {"page_number": 1, "text": "illegible"}
    await factory.call("save_document_pages", **key, **run, p_pages=Jsonb([page]), p_page_count=1)
    result = {"position": 1, "verdict": "MANUAL", "extracted_text": "illegible", "issues": []}
    done = {"p_results": Jsonb([result]), "p_confidence": "0.9", "p_processing_time_ms": 1}
    await factory.call("complete_check", **key, **done)


async def _fill(factory: factories.Factory, case: uuid.UUID) -> dict[str, uuid.UUID]:
    claim, letter = await factory.claimed(case), await factory.dead_letter(case)
    deleted = await factory.completed(case)
    await factory.call("delete_document", p_document_id=deleted)
    completed = await factory.completed(case)
    await factory.call(
        "correct_page",
        p_document_id=completed,
        p_page_number=1,
        p_base_version=0,
        p_text="some text!",
    )
    await factory.completed(case, text="illegible", confidence=0.1)
    manual = await factory.dead_letter(case)
    await factory.call("resolve_dead_letter", p_dlq_id=manual.dlq_id, p_action="manual")
    webhook = await factory.call(
        "request_webhook", p_document_id=completed, p_url="https://example.org/"
    )
    return {
        "case": case,
        "claimed": claim.document_id,
        "token": claim.lock_token,
        "dlq": letter.dlq_id,
        "deleted": deleted,
        "queued": await factory.queued(case),
        "completed": completed,
        "manual": manual.document_id,
        "webhook": uuid.UUID(webhook["webhook_id"]),
        "pending": await factory.queued(case, lane=None),
        "task": await factory.task(),
        "awaiting": await factory.awaiting_file(case),
    }


async def _sign_in(database: databases.Database, ids: Ids) -> Mapping[str, psycopg.AsyncConnection]:
    roles = {"anon": "anon", "service": "service_role"}
    sessions = {"worker": await database.connect("pagewarden_worker")}
    for actor in rights.ACTORS[:-1]:
        role = roles.get(actor, "authenticated")
        claims = {"role": role} | ({"sub": str(ids[actor])} if actor in ids else {})
        sessions[actor] = await database.connect("authenticator", claims=claims)
        await sessions[actor].execute(f"set role {role}".encode())
    return sessions


async def test_the_tables_of_rights_are_complete(world: World) -> None:
    """Whoever adds a table, a view or a function says who may use it."""
    relations = await world.rows(
        "select relname from pg_class where relkind in ('r', 'p', 'v', 'm', 'f') "
        "and relnamespace = 'public'::regnamespace"
    )
    functions = await world.rows(
        "select proname from pg_proc where pronamespace = 'public'::regnamespace"
    )

    for actor in rights.ACTORS:
        assert {name for (name,) in relations} == {*rights.matrix(rights.READS)[actor]}
        assert {name for (name,) in functions} == {*rights.matrix(rights.CALLS)[actor]}
    assert {name for (name,) in functions} == {*rights.ARGUMENTS}


@pytest.mark.parametrize("actor", rights.ACTORS)
async def test_reads(world: World, actor: str) -> None:
    """Each reader sees exactly the rows of its scope, through tables and views alike."""
    expected = rights.matrix(rights.READS)[actor]

    seen = {relation: await _scope_seen(world, actor, relation) for relation in expected}

    assert seen == expected


async def _scope_seen(world: World, actor: str, relation: str) -> str:
    # The only column that differs between two looks at the same rows.
    query = f"select to_jsonb(r) - 'oldest_waiting_seconds' from public.{relation} as r"
    answer = await world.attempt(actor, query)
    if answer == REFUSED:
        return "no"
    scopes = {"none": "false", "all": "true"}
    scopes |= {"case": rights.OF_THE_CASE[relation]} if relation in rights.OF_THE_CASE else {}
    scopes |= {"own": rights.OWN[relation]} if relation in rights.OWN else {}
    rows = {name: await world.rows(f"{query} where {scopes[name]}") for name in scopes}
    assert len({len(found) for found in rows.values()}) == len(rows), "the scopes look alike"
    return next((name for name, found in rows.items() if _same(answer, found)), repr(answer))


def _same(one: list[tuple[Any, ...]] | str, other: list[tuple[Any, ...]]) -> bool:
    return sorted(map(repr, one)) == sorted(map(repr, other))


@pytest.mark.parametrize("actor", rights.ACTORS)
async def test_writes(world: World, actor: str) -> None:
    """Nobody changes rows but by calling functions; the service role has a few to set up."""
    tried = {
        (relation, verb): await world.attempt(actor, statement)
        for relation in rights.matrix(rights.READS)[actor]
        for verb, statement in (await _statements(world, relation)).items()
        if verb not in rights.WRITES.get((actor, relation), ())
    }

    assert tried == {(relation, verb): _refusal(relation, verb) for relation, verb in tried}


async def _statements(world: World, relation: str) -> dict[str, str]:
    ((column,),) = await world.rows(
        f"select attname from pg_attribute where attrelid = 'public.{relation}'::regclass "
        "and attnum > 0 and attidentity = '' and attgenerated = '' order by attnum limit 1"
    )
    return {
        "insert": f"insert into public.{relation} default values",
        "update": f"update public.{relation} set {column} = {column}",
        "delete": f"delete from public.{relation}",
    }


def _refusal(relation: str, verb: str) -> str:
    """Name the SQLSTATE: what no view can do is refused before anybody asks for rights."""
    unwritable = {
        "ocr_success_criteria": "insert update delete",
        "ocr_system_health": "insert update delete",
        "page_texts": "insert update delete",
        "hac_logs": "update delete",
    }
    return NOT_WRITABLE if verb in unwritable.get(relation, "").split() else REFUSED


@pytest.mark.parametrize("statement", rights.SERVICE_WRITES)
async def test_service_role_writes_what_it_sets_up(world: World, statement: str) -> None:
    """Roles, switches, limits of lanes and the registry's queue are written directly."""
    assert isinstance(await world.attempt("service", statement), list)


@pytest.mark.parametrize("statement", rights.SERVICE_REFUSED_WRITES)
async def test_service_role_writes_nothing_else(world: World, statement: str) -> None:
    """What functions keep consistent is refused to the service role too."""
    assert await world.attempt("service", statement) == REFUSED


@pytest.mark.parametrize("actor", rights.ACTORS)
async def test_calls(world: World, actor: str) -> None:
    """Each function serves those it is for, with an effect, and refuses the others."""
    expected = rights.matrix(rights.CALLS)[actor]

    answers = {function: await _answer(world, actor, function) for function in expected}

    assert answers == expected


async def _answer(world: World, actor: str, function: str) -> str:
    arguments = rights.ARGUMENTS[function]
    answer = await world.attempt(actor, f"select to_jsonb(r) from public.{function}({arguments}) r")
    if answer == REFUSED:
        return "no"
    if "UPLOAD_NOT_FOUND" in repr(answer):
        return "none"
    failed = isinstance(answer, str) or any(
        isinstance(value, dict) and value.get("success") is False for (value,) in answer
    )
    return repr(answer) if failed else "yes"


@pytest.mark.parametrize(
    ("actor", "cases"),
    [("nobody", 0), ("stranger", 0), ("viewer", 1), ("owner", 1), ("admin", 2), ("service", 2)],
)
async def test_search_finds_only_what_the_caller_may_read(
    world: World, actor: str, cases: int
) -> None:
    """Every case has one document that would be found, and a deleted one that is not."""
    found = await world.attempt(actor, "select case_id from search_documents('some text')")

    assert len(found) == len(set(found)) == cases
    assert cases != 1 or found == [(world.ids["case"],)]


async def test_a_member_cannot_make_itself_owner(world: World) -> None:
    """Nobody creates a case for somebody else, or shares one that is not theirs."""
    for_another = "select create_case('Theirs', p_owner => %(owner)s)"
    assert await world.attempt("stranger", for_another) == REFUSED
    assert isinstance(await world.attempt("admin", for_another), list)
    share = "select share_case(%(case)s, %(editor)s, 'editor')"
    assert await world.attempt("editor", share) == REFUSED


async def test_what_is_not_there_cannot_be_told_from_what_is_not_yours(world: World) -> None:
    """A stranger who guesses ids gets the same answer for all of them."""
    for function in ("cancel_document", "delete_document", "erase_document", "read_again"):
        refused = await world.attempt("stranger", f"select {function}(gen_random_uuid())")
        assert refused == REFUSED, function


async def test_rights_end_at_once(world: World) -> None:
    """Taking a role or a membership away works with the next statement."""
    factory, case = world.factory, await world.factory.case()
    person = await factory.user(admin=True)
    count = "select count(*) from cases where id = %s"
    seen = []

    async def look() -> None:
        async with factory.database.acting_as(person) as conn:
            seen.extend(await (await conn.execute(count, (case,))).fetchall())

    await look()
    await factory.conn.execute("delete from user_roles where user_id = %s", (person,))
    await look()
    await factory.call("share_case", p_case_id=case, p_user_id=person)
    await look()
    await factory.call("share_case", p_case_id=case, p_user_id=person, p_role=None)
    await look()

    assert seen == [(1,), (0,), (1,), (0,)]
