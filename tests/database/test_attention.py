"""What waits for a person: lists, decisions about many, and what is told to who comes second."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, queries

if TYPE_CHECKING:
    import uuid

    import psycopg

    from tests.support import databases

# Straight into the tables: thousands of failed readings would take minutes.
FILLER = (
    """
    insert into documents (case_id, name, ocr_status, created_at)
    select %s, 'filler ' || n, 'dead_letter', now() - make_interval(secs => n)
    from generate_series(1, 5000) as n
    """,
    """
    insert into ocr_dead_letter (
      document_id, case_id, document_name, last_error_message, error_category, status,
      first_failed_at, last_failed_at
    )
    select d.id, d.case_id, d.name, repeat(chr(97 + (d.n % 26)::integer), 3) || ' torn',
      'permanent', case when d.n % 2 = 0 then 'pending' else 'requeued' end,
      d.created_at, d.created_at
    from (select *, row_number() over (order by created_at) as n from documents) as d
    """,
    """
    insert into tasks (document_id, case_id, kind, title, status, priority, done_at, created_at)
    select l.document_id, l.case_id, 'dead_letter', 'filler',
      case l.status when 'pending' then 'pending' else 'done' end, 'high',
      case l.status when 'pending' then null else now() end, l.last_failed_at
    from ocr_dead_letter as l
    """,
)


@pytest.fixture
async def factory(database: databases.Database) -> factories.Factory:
    """Give the test what makes documents."""
    return await factories.Factory.of(database)


async def _as(factory: factories.Factory, user: uuid.UUID) -> psycopg.AsyncConnection:
    return await factory.database.connect(claims={"role": "authenticated", "sub": str(user)})


async def _answer(conn: psycopg.AsyncConnection, function: str, **params: Any) -> Any:
    (answer,) = await factories.call(conn, function, **params)
    return answer


async def _full(factory: factories.Factory) -> psycopg.AsyncConnection:
    conn = await plans.connect(factory.database)
    await conn.execute("set session_replication_role = replica")
    letters, *others = FILLER
    await conn.execute(letters.encode(), (await factory.case(),))
    for statement in others:
        await conn.execute(statement.encode())
    await conn.execute("set session_replication_role = origin")
    await conn.execute("vacuum (analyze) documents, ocr_dead_letter, tasks")
    return conn


# A list, how many rows it has, and how many of a table it may read for them.
LISTS = (
    ("list_dead_letters()", 50, 60),
    ("list_dead_letters(p_before => now() - interval '40 minutes')", 50, 60),
    ("""list_dead_letters('{"status": "requeued"}')""", 50, 60),
    ("""list_dead_letters('{"error_group": "ccc torn"}')""", 50, 200),
    ("""list_dead_letters('{"status": "abandoned"}')""", 0, 5),
    ("dead_letter_groups()", 13, 2600),
    ("list_tasks()", 50, 60),
    ("list_tasks(p_kind => 'routing')", 0, 5),
    ("list_tasks(p_priority => 'urgent')", 0, 5),
    ("list_tasks(p_whose => 'mine')", 0, 5),
    ("list_tasks(p_whose => 'unassigned', p_kind => 'dead_letter')", 50, 60),
    ("stuck_documents()", 0, 5),
)


@pytest.mark.fresh
async def test_lists_read_what_they_show(factory: factories.Factory) -> None:
    """By index, whatever the filter, among thousands; groups read what is open and no more."""
    conn = await _full(factory)
    for query, rows, most in LISTS * 7:  # after five runs Postgres settles for one plan
        async with plans.collected(conn) as found:
            assert len(await queries.rows(conn, f"select * from {query}")) == rows
        for plan in found:
            scanned = plan.scanned() & {"documents", "ocr_dead_letter", "tasks"}
            assert scanned == set(), (query, plan.statement)
            assert all(read <= most for read in plan.read().values()), (query, plan.read())


async def test_groups_count_what_differs_only_in_detail(factory: factories.Factory) -> None:
    """With categories, cases, first and last seen; only what matches and is open."""
    case = await factory.case()
    for number in range(3):
        await factory.dead_letter(case, error=f"page {number} torn", category="resource")
    await factory.dead_letter(error="page 9 torn", category="permanent")
    settled = await factory.dead_letter(case, error="page 10 torn")
    await factory.call("resolve_dead_letter", p_dlq_id=settled.dlq_id, p_action="abandon")
    await factory.dead_letter(case, error="no font")

    torn, font = await factories.call(factory.conn, "dead_letter_groups")
    filtered = {"case_id": str(case), "error_category": "resource", "name": "FILE"}
    (one,) = await factories.call(factory.conn, "dead_letter_groups", p_filter=Jsonb(filtered))

    assert (torn["error_group"], torn["letters"], torn["cases"]) == ("page <n> torn", 4, 2)
    assert torn["error_categories"] == ["permanent", "resource"]
    assert torn["first_failed_at"] < torn["last_failed_at"]
    assert font["letters"] == 1
    assert one["letters"] == 3
    assert await factory.call("count_dead_letters", p_filter=Jsonb(filtered)) == 3
    assert await factory.call("count_dead_letters") == 5
    assert await factory.call("count_dead_letters", p_filter=Jsonb({"name": "no such"})) == 0


async def test_a_filter_chooses_the_same_for_lists_and_acts(factory: factories.Factory) -> None:
    """What is listed and counted is what is decided about; ids name anything, settled or not."""
    case = await factory.case()
    made = [await factory.dead_letter(case, lane=lane) for lane in ("image", "pdf", "pdf")]
    settled = made[2]
    await factory.call("resolve_dead_letter", p_dlq_id=settled.dlq_id, p_action="requeue")
    for chosen, expected in (
        ({"lane": "pdf"}, made[1:2]),
        ({"status": "requeued"}, made[2:]),
        ({"ids": [str(made[0].dlq_id), str(settled.dlq_id), "nope"]}, [made[2], made[0]]),
        ({"failed_before": "2020-01-01"}, []),
        ({"case_id": None, "lane": "image"}, made[:1]),
    ):
        rows = await factories.call(factory.conn, "list_dead_letters", p_filter=Jsonb(chosen))
        assert {row["dlq_id"] for row in rows} == {str(each.dlq_id) for each in expected}
        counted = await factory.call("count_dead_letters", p_filter=Jsonb(chosen))
        assert counted == len(expected)

    answer = await factory.call(
        "resolve_dead_letters", p_filter=Jsonb({"name": "FILE", "lane": "pdf"}), p_action="manual"
    )
    assert [each["dlq_id"] for each in answer["documents"]] == [str(made[1].dlq_id)]


async def test_who_decides_second_is_told(factory: factories.Factory) -> None:
    """Who was first, with what and when; also of a selection, and of an investigation."""
    first, second = await factory.user(admin=True), await factory.user(admin=True)
    mine, theirs = await _as(factory, first), await _as(factory, second)
    letter = await factory.dead_letter()
    decide: dict[str, Any] = {"p_dlq_id": letter.dlq_id}

    for _ in range(2):  # one's own investigation may go on
        begun = await _answer(mine, "resolve_dead_letter", **decide, p_action="investigate")
        assert begun["success"]
    also = await _answer(theirs, "resolve_dead_letter", **decide, p_action="investigate")
    done = await _answer(theirs, "resolve_dead_letter", **decide, p_action="abandon")
    late = await _answer(mine, "resolve_dead_letter", **decide, p_action="requeue")
    ids = Jsonb({"ids": [str(letter.dlq_id)]})
    many = await _answer(mine, "resolve_dead_letters", p_filter=ids, p_action="manual")

    assert (also["error"], also["resolved_by"]) == ("BEING_INVESTIGATED", f"{first}@example.org")
    assert (done["success"], done["investigated_by"]) == (True, f"{first}@example.org")
    assert late["error"] == "ALREADY_RESOLVED"
    assert late["message"].startswith(f"abandoned by {second}@example.org at 20")
    assert late["message"].endswith("its document is failed")
    assert (many["resolved"], many["skipped"][0]["message"]) == (0, late["message"])


async def test_history_tells_everything_and_names_to_hac_only(factory: factories.Factory) -> None:
    """Errors, acts and results, newest first; the people of the case see no addresses of HAC."""
    owner, admin = await factory.user(), await factory.user(admin=True)
    letter = await factory.dead_letter(await factory.case(owner), error="broken")
    hac, person = await _as(factory, admin), await _as(factory, owner)
    key = {"p_document_id": letter.document_id}
    await _answer(hac, "resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="requeue")
    lock = await factory.call("acquire_document_lock", **key, p_worker_id="worker-2")
    token = {"p_lock_token": lock["lock_token"]}
    result = {"p_ocr_data": Jsonb({"text": "x"}), "p_confidence": 1, "p_processing_time_ms": 1}
    await factory.call("process_ocr_atomic", **key, **token, **result, p_engine="rapid")

    seen = await factories.call(hac, "document_history", **key)
    shared = await factories.call(person, "document_history", **key)

    kinds = [(event["source"], event["kind"]) for event in seen]
    assert kinds[:2] == [("result", "completed"), ("act", "requeued")]
    assert ("error", "failure") in kinds
    assert ("act", "dead_letter") in kinds
    assert (seen[0]["engine"], seen[0]["worker_id"]) == ("rapid", "worker-2")
    assert seen[1]["person"] == f"{admin}@example.org"
    assert shared[1]["person"] == "HAC or a member"
    assert [event["message"] for event in shared] == [event["message"] for event in seen]
    assert len(await factories.call(hac, "document_history", **key, p_limit=1)) == 1


async def _age(factory: factories.Factory, claim: factories.Claim, **ages: int) -> None:
    for column, minutes in ages.items():
        await factory.conn.execute(
            f"update documents set {column} = {column} - %s where id = %s".encode(),
            (dt.timedelta(minutes=minutes), claim.document_id),
        )


async def test_stuck_is_what_is_held_long_or_by_the_silent(factory: factories.Factory) -> None:
    """As the overview counts; held longest first, with when the sweep would take it."""
    healthy, long, silent = [await factory.claimed() for _ in range(3)]
    await _age(factory, long, claimed_at=11)
    await _age(factory, silent, claimed_at=6, locked_at=6)
    await _age(factory, healthy, claimed_at=9)

    rows = await factories.call(factory.conn, "stuck_documents")
    health = await queries.one(factory.conn, "select stuck from ocr_system_health")

    assert [row["document_id"] for row in rows] == [str(long.document_id), str(silent.document_id)]
    assert health["stuck"] == 2
    assert 660 <= rows[0]["held_seconds"] < 670
    assert 360 <= rows[1]["silent_seconds"] < 370
    assert rows[0]["sweep_due_at"] >= rows[0]["lock_expires_at"]
    assert (rows[0]["rescues"], rows[0]["max_rescues"]) == (0, 3)


async def test_only_the_claim_that_was_seen_is_ended(factory: factories.Factory) -> None:
    """What was completed or taken by another meanwhile is skipped, and said so."""
    claims = [await factory.claimed() for _ in range(4)]
    found = await queries.rows(factory.conn, "select id, claimed_at from documents")
    times = {row["id"]: row["claimed_at"].isoformat() for row in found}
    await factory.call("cancel_document", p_document_id=claims[1].document_id)
    await factory.call("recover_stuck_documents", p_stuck_minutes=0)
    await factory.call(
        "acquire_document_lock", p_document_id=claims[2].document_id, p_worker_id="worker-2"
    )
    await factory.conn.execute(
        "update documents set ocr_status = 'processing', claimed_at = %s, attempts = 5, rescues = 3"
        " where id = %s",
        (times[claims[3].document_id], claims[3].document_id),
    )
    given = [
        {"document_id": str(each.document_id), "claimed_at": times[each.document_id]}
        for each in claims
    ]

    answer = await factory.call("give_back_documents", p_documents=Jsonb(given))

    assert [(each["document_id"], each["ocr_status"]) for each in answer["documents"]] == [
        (str(claims[3].document_id), "dead_letter")
    ]
    told = {each["document_id"]: each["message"] for each in answer["skipped"]}
    assert told[str(claims[0].document_id)].startswith(
        "its status is now queued; last act: recover stuck"
    )
    assert told[str(claims[1].document_id)].startswith("its status is now cancelled")
    assert told[str(claims[2].document_id)].startswith("worker-2 has it since 20")
    violations = await queries.rows(
        factory.conn, "select invariant from private.invariant_violations()"
    )
    assert violations == []


async def test_files_are_routed_or_refused_once(factory: factories.Factory) -> None:
    """A lane that was chosen meanwhile stays, and nothing that is being read is refused."""
    admin = await factory.user(admin=True)
    conn = await _as(factory, admin)
    made = [await factory.queued(lane=None) for _ in range(3)]

    sent = await _answer(conn, "route_documents", p_document_ids=made[:2], p_lane="pdf")
    refused = await _answer(conn, "refuse_documents", p_document_ids=made[1:], p_reason="no")

    assert (sent["done"], sent["skipped"]) == (2, [])
    assert (refused["done"], refused["documents"]) == (1, [str(made[2])])
    (skipped,) = refused["skipped"]
    assert skipped["message"].startswith(
        "its status is now queued for pdf; last act: requeued, by "
    )
    assert f"{admin}@example.org" in skipped["message"]
    statuses = await queries.rows(factory.conn, "select id, ocr_status from documents")
    assert {row["id"]: row["ocr_status"] for row in statuses} == dict(
        zip(made, ("queued_for_pdf", "queued_for_pdf", "cancelled"), strict=True)
    )


async def test_tasks_are_listed_by_urgency_then_age(factory: factories.Factory) -> None:
    """Page by page each comes once, whatever was asked for."""
    admin = await factory.user(admin=True)
    conn = await _as(factory, admin)
    made = {}
    for number, priority in enumerate(("low", "normal", "urgent", "normal", "high")):
        made[number] = str(await factory.task(p_priority=priority))
    seen: list[str] = []
    place: dict[str, Any] = {}
    while page := await factories.call(conn, "list_tasks", p_limit=2, **place):
        seen += [task["task_id"] for task in page]
        last = page[-1]
        place = {
            "p_after_urgency": last["urgency"], "p_after": last["created_at"],
            "p_after_id": last["task_id"],
        }  # fmt: skip
    assert seen == [made[2], made[4], made[1], made[3], made[0]]


async def test_a_task_changes_hands_and_ends_once(factory: factories.Factory) -> None:
    """Whoever comes second is told who has it or ended it; the log has every step."""
    first, second = await factory.user(admin=True), await factory.user(admin=True)
    mine, theirs = await _as(factory, first), await _as(factory, second)
    task = {"p_task_id": await factory.task()}

    taken = await _answer(mine, "assign_task", **task, p_user_id=first)
    refused = await _answer(theirs, "assign_task", **task, p_user_id=second)
    row = await queries.one(factory.conn, "select status, assigned_to from tasks")
    back = await _answer(theirs, "assign_task", **task, p_from=first)
    gone = await _answer(mine, "assign_task", **task, p_user_id=first, p_from=first)
    urgent = await _answer(mine, "set_task_priority", **task, p_priority="urgent")
    ended = await _answer(mine, "end_task", **task)
    again = await _answer(theirs, "end_task", **task, p_status="cancelled")

    assert taken["success"]
    assert row == {"status": "in_progress", "assigned_to": first}
    assert refused["error"] == gone["error"] == "TASK_TAKEN"
    assert refused["message"].startswith(
        f"the task has been assigned to {first}@example.org since 20"
    )
    assert gone["message"].startswith("the task was unassigned at 20")
    assert back["success"]
    assert urgent["success"]
    assert ended["success"]
    assert again["error"] == "TASK_ENDED"
    assert again["message"].startswith(f"the task was already done by {first}@example.org at 20")
    log = await queries.rows(
        factory.conn,
        "select action_type, user_id from hac_logs where user_id is not null order by created_at",
    )
    assert [(each["action_type"], each["user_id"]) for each in log] == [
        ("task_assigned", first),
        ("task_given_back", second),
        ("task_priority", first),
        ("task_done", first),
    ]


async def test_what_ends_by_itself_is_not_ended_by_hand(factory: factories.Factory) -> None:
    """A task is about something: done there, it is done; a look at pages may end without."""
    letter = await factory.dead_letter()
    await factory.queued(lane=None)
    claim = await factory.claimed()
    key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    pages = Jsonb({"pages": [{"page_number": 1, "status": "unread"}]})
    result = {"p_ocr_data": pages, "p_confidence": 1, "p_processing_time_ms": 1}
    await factory.call("process_ocr_atomic", **key, **result)
    rows = await queries.rows(factory.conn, "select id, kind from tasks")
    tasks = {row["kind"]: row["id"] for row in rows}

    answers = {kind: await factory.call("end_task", p_task_id=task) for kind, task in tasks.items()}

    assert {kind: answer.get("error") for kind, answer in answers.items()} == {
        "dead_letter": "NOT_BY_HAND",
        "routing": "NOT_BY_HAND",
        "review": None,
    }
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="requeue")
    done = await factory.call("end_task", p_task_id=tasks["dead_letter"])
    assert done["message"].startswith("the task was already done by an operator or a service at 20")
    violations = await queries.rows(
        factory.conn, "select invariant from private.invariant_violations()"
    )
    assert violations == []
