"""All functions in random order, against the model and the invariants, step by step."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row

from tests.database import model

if TYPE_CHECKING:
    from tests.support import databases

START = datetime(2030, 1, 1, tzinfo=UTC)
LANES = ["image", "pdf"]
CATEGORIES = ["transient", "permanent", "resource", "configuration", "unknown"]
LETTERS = {
    "investigate": "investigating",
    "requeue": "requeued",
    "manual": "manual",
    "abandon": "abandoned",
}
INVOCATIONS = [str(uuid.UUID(int=number)) for number in (1, 2)]
PAGES = ["read", "read", "unread", "failed"]
NAMES = st.sampled_from(["a.png", "b.png", "c.pdf", "d.bin"])
SHOWN = """
    select d.id::text, d.ocr_status as status, d.lane, d.attempts, d.retry_count, d.rescues,
      d.lock_token::text as token, d.deleted_at is not null as deleted, l.status as letter,
      (select count(*) from public.ocr_processing_logs as r where r.document_id = d.id) as results,
      d.page_count
    from public.documents as d
    left join public.ocr_dead_letter as l on l.document_id = d.id
"""


class Engine(RuleBasedStateMachine):
    """Drives the database and the model side by side, in one transaction that is rolled back."""

    documents = Bundle("documents")
    claims = Bundle("claims")

    def __init__(self, url: str) -> None:
        super().__init__()
        self.conn = psycopg.Connection.connect(
            url, row_factory=dict_row, options="-c search_path=private,public,extensions"
        )
        self.now = START
        self.model = model.Model()
        self.counter = 0
        self.conn.execute(
            "select set_config('request.jwt.claims', '{\"role\":\"service_role\"}', true)"
        )
        self.cases = [str(self.one("select public.create_case('case')")) for _ in range(2)]

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.conn.rollback()
        self.conn.close()

    # Helpers -------------------------------------------------------------------------------

    def one(self, query: str, *params: object) -> Any:
        """Ask for a single value."""
        row = self.conn.execute(query.encode(), params).fetchone()
        assert row is not None
        return next(iter(row.values()))

    def call(self, name: str, *params: object) -> Any:
        """Call a function that takes the time as its last parameter."""
        marks = ", ".join(["%s"] * (len(params) + 1))
        return self.one(f"select to_jsonb(r) from {name}({marks}) as r", *params, self.now)

    def expect(self, answer: dict[str, Any], refusal: str | None) -> bool:
        """Compare an answer with what the model says; True when the call took effect."""
        assert answer.get("error") == refusal, answer
        assert answer["success"] is (refusal is None)
        return refusal is None

    def adopt(self, document: str) -> model.Document:
        """Take over the one thing the model cannot know: the jitter of a retry."""
        doc = self.model.documents[document]
        doc.retry_at = self.one("select retry_at from public.documents where id = %s", document)
        return doc

    def resync(self) -> None:
        """Adopt the retry times of all documents after a sweep."""
        for document in self.model.documents:
            self.adopt(document)

    # Intake --------------------------------------------------------------------------------

    # Hypothesis switches many rules off in each life; without documents most others do nothing.
    @initialize(target=documents)
    def begin_with_documents(self) -> Any:
        """Upload a picture and a PDF."""
        return multiple(self.upload(0, "a.png", 0), self.upload(1, "c.pdf", 0))

    @initialize(
        target=claims,
        pages=st.lists(st.sampled_from(PAGES), max_size=3),
        count=st.sampled_from([None, 3]),
    )
    def begin_with_claims(self, pages: list[str], count: int | None) -> Any:
        """Have two documents in hand, one of them with pages, perhaps not with all of them."""
        found = [self.acquire(self.upload(0, name, 1)) for name in ("b.png", "e.png")]
        for number, status in enumerate(pages, start=1):
            self.save_page(found[0], number, status, count)
        return multiple(*found)

    @rule(target=documents, case=st.integers(0, 1), name=NAMES, content=st.integers(0, 2))
    def upload(self, case: int, name: str, content: int) -> str:
        """Upload new bytes, the same bytes, or a type nobody knows."""
        sha = hashlib.sha256(bytes([content])).hexdigest()
        extension = name.split(".")[1]
        lane = {"png": "image", "pdf": "pdf"}.get(extension)
        answer = self.call(
            "safe_document_reupload_v2",
            self.cases[case], name, "/x", extension, None, None, sha, 1, None, 0, None, None, None,
        )  # fmt: skip
        document = str(answer["document_id"])
        old = self.model.live(self.cases[case], name)
        if old is not None and old.sha256 == sha:
            assert (document, answer["existing"]) == (old.id, True)
            if old.status in ("dead_letter", "failed", "cancelled"):
                self.model.requeue(old)
            return document
        if old is not None:
            self.model.supersede(old)
        new = model.Document(document, self.cases[case], name, lane or "image", "pending", sha)
        new.status = "pending" if lane is None else new.queued_word
        self.model.documents[document] = new
        return document

    @rule(target=documents, case=st.integers(0, 1), count=st.integers(1, 3))
    def add(self, case: int, count: int) -> Any:
        """Take several files in at once."""
        self.counter += 1
        names = [f"bulk-{self.counter}-{n}" for n in range(count)]
        rows = self.conn.execute(
            "select private.add_documents(%s, %s, 'image', 0, %s)::text as id",
            (self.cases[case], json.dumps([{"name": name} for name in names]), self.now),
        ).fetchall()
        assert len(rows) == count
        for row, name in zip(rows, names, strict=True):
            self.model.documents[row["id"]] = model.Document(
                row["id"], self.cases[case], name, "image", "queued", ""
            )
        return multiple(*(row["id"] for row in rows))

    @rule(document=documents, lane=st.sampled_from(LANES))
    def route(self, document: str, lane: str) -> None:
        """Send a file of unknown type to a lane."""
        doc = self.model.documents.get(document)
        refusal = "DOCUMENT_NOT_FOUND" if doc is None else None
        if doc is not None and doc.status != "pending":
            refusal = "WRONG_STATE"
        if self.expect(self.call("route_document", document, lane, None), refusal):
            assert doc is not None
            doc.lane = lane
            self.model.requeue(doc)

    @rule(document=documents)
    def read_again(self, document: str) -> None:
        """Read a finished document once more."""
        doc = self.model.documents.get(document)
        refusal = "DOCUMENT_NOT_FOUND" if doc is None else None
        finished = (*model.ENDED, "pending_review", "dead_letter")
        if doc is not None and (doc.deleted or doc.status not in finished):
            refusal = "WRONG_STATE"
        if self.expect(self.call("read_again", document, None, None, None), refusal):
            assert doc is not None
            doc.reading += 1
            self.model.requeue(doc)

    # Workers -------------------------------------------------------------------------------

    @rule(target=claims, lanes=st.permutations(LANES), limit=st.integers(1, 4))
    def claim(self, lanes: list[str], limit: int) -> Any:
        """Claim, which also sweeps when it finds nothing."""
        wanted = self.model.claimable(lanes, limit, self.now)
        swept = self.model.swept_at
        if not any(wanted.values()) and (swept is None or self.now - swept >= timedelta(seconds=1)):
            found = self.model.sweep(self.now) > 0
        else:
            found = True
        rows = self.conn.execute(
            "select id::text, lock_token::text as token, lane"
            " from public.claim_documents('w', %s, %s, 20, %s)",
            (lanes, limit, self.now),
        ).fetchall()
        self.check_claim(rows, lanes, limit, found=found)
        for row in rows:
            self.model.start(self.model.documents[row["id"]], row["token"], self.now)
        self.resync()
        return multiple(*((row["id"], row["token"]) for row in rows))

    def check_claim(
        self, rows: list[dict[str, Any]], lanes: list[str], limit: int, *, found: bool
    ) -> None:
        """A claim returns as many documents as it can, and only what may be claimed."""
        taken = {row["id"] for row in rows}
        due = {lane: {d.id for d in self.model.due(lane, self.now)} for lane in lanes}
        # What the sweep inside the claim gave back may or may not be due: its pause is random.
        for doc in self.model.documents.values():
            if doc.id in taken:
                assert doc.status in model.QUEUED
        if not found:
            assert rows == []
            return
        for lane, count in self.model.claimable(lanes, limit, self.now).items():
            mine = {row["id"] for row in rows if row["lane"] == lane}
            paused = self.model.lanes[lane].paused
            assert mine <= (self.model.probes(lane, self.now) if paused else due[lane])
            known = (self.model.documents[i] for i in due[lane])
            retries = sum(d.rescues > 1 or d.retry_count > 0 for d in known)
            assert count - retries <= len(mine) <= count

    @rule(target=claims, document=documents)
    def acquire(self, document: str) -> Any:
        """Claim one known document."""
        doc = self.model.documents.get(document)
        refusal = self.model.refusal(document, None)
        if refusal is None and doc is not None and doc.status not in model.QUEUED:
            refusal = "WRONG_STATE"
        if refusal is None and doc is not None and self.model.lanes[doc.lane].paused:
            refusal = "LANE_PAUSED"
        answer = self.call("acquire_document_lock", document, "w", 20)
        if not self.expect(answer, refusal):
            return multiple()
        assert doc is not None
        self.model.start(doc, answer["lock_token"], self.now)
        return (document, answer["lock_token"])

    @rule(claim=claims)
    def heartbeat(self, claim: tuple[str, str]) -> None:
        """Say that the worker lives, with a token that may be outdated."""
        document, token = claim
        doc, refusal = self.model.documents.get(document), self.model.refusal(*claim)
        if refusal is None and doc is not None and doc.deadline is not None:
            refusal = "DEADLINE_EXCEEDED" if doc.deadline < self.now else None
        if self.expect(self.call("extend_document_lock", document, token, 20), refusal):
            assert doc is not None
            doc.locked_at, doc.expires = self.now, self.now + model.LOCK

    @rule(claim=claims, invocation=st.sampled_from(INVOCATIONS))
    def begin(self, claim: tuple[str, str], invocation: str) -> None:
        """Begin to read as an invocation, perhaps as the second one."""
        document, token = claim
        doc, refusal = self.model.documents.get(document), self.model.refusal(*claim)
        if refusal is None and doc is not None and doc.deadline is not None:
            refusal = "DEADLINE_EXCEEDED" if doc.deadline < self.now else None
        if refusal is None and doc is not None and doc.is_begun(token):
            refusal = "ALREADY_BEGUN" if doc.begun != (token, invocation) else None
        if self.expect(self.call("begin_dispatch", document, token, invocation, "w", 20), refusal):
            assert doc is not None
            doc.locked_at, doc.expires = self.now, self.now + model.LOCK
            doc.begun = token, invocation

    @rule(claim=claims)
    def hold(self, claim: tuple[str, str]) -> None:
        """Renew the lock as a dispatcher, until an invocation has begun."""
        document, token = claim
        doc = self.model.documents.get(document)
        begun = doc is not None and doc.is_begun(token)
        refusal = None if begun else self.model.refusal(*claim)
        if refusal is None and not begun and doc is not None and doc.deadline is not None:
            refusal = "DEADLINE_EXCEEDED" if doc.deadline < self.now else None
        answer = self.call("extend_dispatch", document, token, 20)
        assert answer["begun"] is begun
        if self.expect(answer, refusal) and not begun:
            assert doc is not None
            doc.locked_at, doc.expires = self.now, self.now + model.LOCK

    @rule(
        claim=claims,
        page=st.sampled_from([1, 1, 2, 3]),
        status=st.sampled_from(PAGES),
        count=st.sampled_from([None, None, 1, 3]),
    )
    def save_page(self, claim: tuple[str, str], page: int, status: str, count: int | None) -> None:
        """Save one page of a reading, perhaps with how many there are."""
        document, token = claim
        body = {"page_number": page, "status": status, "text": f"page {page}"}
        if status == "failed":
            body["error"] = "no"
        answer = self.call(
            "save_document_pages", document, token, json.dumps([body]), "null", "1", "fast", count
        )
        if not self.expect(answer, self.model.refusal(document, token)):
            return
        doc = self.model.documents[document]
        doc.page_count = doc.page_count if count is None else count
        pages = doc.pages.setdefault((doc.reading, "null"), {})
        if status != "failed" or pages.get(page, "failed") == "failed":
            pages[page] = status
            doc.saved_at[doc.reading, page] = self.now
        assert answer["saved"] == sorted(n for n, kept in pages.items() if kept != "failed")

    @rule(document=documents, page=st.integers(1, 3))
    def lose_page(self, document: str, page: int) -> None:
        """Go back to an older copy of the database, in which a page is not saved yet."""
        doc = self.model.documents.get(document)
        if doc is not None and doc.status != "completed" and page in doc.open_pages:
            del doc.open_pages[page]
            self.conn.execute(
                "delete from public.ocr_pages as o using public.documents as d"
                " where d.id = %s and o.run_id = d.open_run_id and o.page_number = %s",
                (document, page),
            )

    @rule(claim=claims, with_token=st.booleans())
    def complete(self, claim: tuple[str, str], with_token: bool) -> None:
        """Finish a document, with the token of some claim or without."""
        document, token = claim[0], claim[1] if with_token else None
        refusal = self.model.complete_refusal(document, token)
        answer = self.call(
            "process_ocr_atomic",
            document, '{"summary": 1}', "0.9", 5, token, "null", "1", "fast", None,
        )  # fmt: skip
        if self.expect(answer, refusal):
            self.model.complete(self.model.documents[document], self.now)
        elif document in self.model.documents:
            self.refused(document, refusal)

    @rule(found=st.lists(claims, min_size=1, max_size=3, unique_by=lambda claim: claim[0]))
    def complete_many(self, found: list[tuple[str, str]]) -> None:
        """Finish several documents at once, some of them perhaps no longer ours."""
        expected = {d: self.model.complete_refusal(d, t) for d, t in found}
        rows = self.conn.execute(
            "select id::text, refusal from public.complete_documents(%s::uuid[], %s::uuid[],"
            " %s::jsonb[], p_engine => 'null', p_version => '1', p_profile => 'fast', p_now => %s)",
            ([d for d, _ in found], [t for _, t in found], ["{}"] * len(found), self.now),
        ).fetchall()
        assert {row["id"]: row["refusal"] for row in rows} == {
            document: refusal for document, refusal in expected.items() if refusal
        }
        for document, refusal in expected.items():
            if refusal is None:
                self.model.complete(self.model.documents[document], self.now)
            elif document in self.model.documents:
                self.refused(document, refusal)

    def refused(self, document: str, refusal: str | None) -> None:
        """Mirror in the model what a result that was not taken does."""
        self.model.refuse_result(self.model.documents[document], refusal, self.now)
        self.adopt(document)

    @rule(claim=claims, category=st.sampled_from(CATEGORIES), with_token=st.booleans())
    def fail(self, claim: tuple[str, str], category: str, with_token: bool) -> None:
        """Report a failure."""
        document, token = claim[0], claim[1] if with_token else None
        refusal = self.model.refusal(document, token)
        known = ("processing", *model.QUEUED)  # queued: conflicts prevented the claim
        if refusal is None and self.model.documents[document].status not in known:
            refusal = "WRONG_STATE"
        answer = self.call("fail_document", document, token, "broken", "{}", category, None)
        if self.expect(answer, refusal):
            self.model.fail(self.model.documents[document], category, self.now)
            self.adopt(document)

    @rule(claim=consumes(claims), outage=st.booleans(), unless_begun=st.booleans())
    def release(self, claim: tuple[str, str], outage: bool, unless_begun: bool) -> None:
        """Give a document back unread."""
        document, token = claim
        doc, refusal = self.model.documents.get(document), self.model.refusal(document, token)
        if unless_begun and doc is not None and doc.is_begun(token):
            refusal = "ALREADY_BEGUN"
        listed = json.dumps([{"document_id": document, "lock_token": token}])
        answer = self.call("release_documents", listed, "stop", outage, unless_begun, 0)
        assert [lost["error"] for lost in answer["lost"]] == ([refusal] if refusal else [])
        if refusal is not None:
            return
        assert doc is not None
        if outage:
            self.model.outage(doc, self.now)
            self.adopt(document)
        else:
            doc.attempts -= 1
            self.model.give_back(doc, self.now)

    @rule(claim=claims, with_token=st.booleans())
    def bury(self, claim: tuple[str, str], with_token: bool) -> None:
        """Move a document to the dead letters at once."""
        document, token = claim[0], claim[1] if with_token else None
        refusal = self.model.refusal(document, token)
        if refusal is None:
            doc = self.model.documents[document]
            is_abandoned = doc.deleted and token is None
            if is_abandoned or doc.status in ("completed", "cancelled", "dead_letter"):
                refusal = "WRONG_STATE"
        answer = self.call("move_to_dead_letter_queue", document, "bad", "{}", "unknown", token)
        if self.expect(answer, refusal):
            doc = self.model.documents[document]
            doc.retry_count += token is not None
            self.model.bury(doc, self.now)

    # Time ----------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 5, 21, 31, 120, 1000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    @rule(seconds=st.sampled_from([0, 25]))
    def sweep(self, seconds: int) -> None:
        """Look for dead workers, often just when a lock has expired."""
        self.now += timedelta(seconds=seconds)
        assert self.call("sweep_documents") == self.model.sweep(self.now)
        self.resync()

    @rule()
    def ask_for_a_hint(self) -> None:
        """Ask for a hint, which changes nothing but that somebody is told."""
        running = sum(lane.paused is None for lane in self.model.lanes.values())
        assert self.one("select public.wait_for_documents()") == running

    # People --------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([0, 10]))
    def recover_stuck(self, minutes: int) -> None:
        """Let HAC give back what takes too long."""
        limit = self.now - timedelta(minutes=minutes)
        stuck = [
            d
            for d in self.model.documents.values()
            if d.token is not None and d.claimed_at is not None and d.claimed_at <= limit
        ]
        assert self.call("recover_stuck_documents", minutes, None)["recovered"] == len(stuck)
        for doc in stuck:
            self.model.rescue(doc, self.now)
        self.resync()

    @rule(lane=st.sampled_from(LANES))
    def pause(self, lane: str) -> None:
        """Pause a lane by hand."""
        self.call("pause_lane", lane, "lunch")
        known = self.model.lanes[lane]
        known.resume()
        known.paused = "manual"

    @rule(lane=st.sampled_from(LANES))
    def resume(self, lane: str) -> None:
        """Let a lane run again."""
        answer = self.call("resume_lane", lane)
        assert answer["was_paused"] is (self.model.lanes[lane].paused is not None)
        self.model.lanes[lane].resume()

    @rule(document=documents)
    def cancel(self, document: str) -> None:
        """Stop a document."""
        doc = self.model.documents.get(document)
        refusal = "DOCUMENT_NOT_FOUND" if doc is None else None
        if doc is not None and doc.status in model.ENDED:
            refusal = "WRONG_STATE"
        if self.expect(self.call("cancel_document", document, None), refusal):
            assert doc is not None
            self.model.cancel(doc, self.now)

    @rule(case=st.integers(0, 1))
    def cancel_case(self, case: int) -> None:
        """Stop everything of a case."""
        answer = self.call("end_case", self.cases[case], "cancel")
        open_ones = [
            d
            for d in self.model.documents.values()
            if d.case == self.cases[case] and not d.deleted and d.status not in model.ENDED
        ]
        assert answer["documents"] == len(open_ones)
        for doc in open_ones:
            self.model.cancel(doc, self.now)

    @rule(document=documents)
    def delete(self, document: str) -> None:
        """Put a document away."""
        doc = self.model.documents.get(document)
        refusal = "DOCUMENT_NOT_FOUND" if doc is None else None
        if doc is not None and doc.deleted:
            refusal = "WRONG_STATE"
        if self.expect(self.call("delete_document", document), refusal):
            assert doc is not None
            if doc.status not in model.ENDED:
                self.model.cancel(doc, self.now)
            doc.deleted = True

    @rule(document=documents)
    def restore(self, document: str) -> None:
        """Take a deleted document back."""
        doc = self.model.documents.get(document)
        refusal = "DOCUMENT_NOT_FOUND" if doc is None else None
        if doc is not None and (not doc.deleted or self.model.live(doc.case, doc.name)):
            refusal = "WRONG_STATE"
        if self.expect(self.call("restore_document", document), refusal):
            assert doc is not None
            doc.deleted = False

    @rule(document=consumes(documents))
    def erase(self, document: str) -> None:
        """Remove a document for good."""
        doc = self.model.documents.get(document)
        answer = self.one("select to_jsonb(private.erase_document(%s))", document)
        if self.expect(answer, None if doc else "DOCUMENT_NOT_FOUND"):
            assert doc is not None
            self.model.end_probe(doc.token, datetime.now(UTC))
            for lane in self.model.lanes.values():
                if lane.paused == "outage" and lane.probe_token is None:
                    lane.probe_at = self.one(
                        "select max(probe_at) from public.lanes where probe_at = any(%s)",
                        [lane.probe_at, self.one("select now() + interval '30 seconds'")],
                    )
            del self.model.documents[document]

    @rule(
        document=documents,
        action=st.sampled_from(["investigate", "requeue", "manual", "abandon"]),
        bulk=st.booleans(),
    )
    def resolve(self, document: str, action: str, bulk: bool) -> None:
        """Let HAC decide about a dead letter, alone or through a filter."""
        letter = self.conn.execute(
            "select id::text from public.ocr_dead_letter where document_id = %s", (document,)
        ).fetchone()
        dlq_id = letter["id"] if letter else str(uuid.uuid4())
        doc = self.model.documents.get(document)
        refusal = None if letter else "DEAD_LETTER_NOT_FOUND"
        if letter and doc is not None and doc.letter not in ("pending", "investigating"):
            refusal = "ALREADY_RESOLVED"
        if bulk:
            answer = self.call("resolve_dead_letters", json.dumps({"ids": [dlq_id]}), action, None)
            assert [s["error"] for s in answer["skipped"]] == ([refusal] if refusal else [])
            assert answer["resolved"] == (0 if refusal else 1)
        else:
            self.expect(self.call("resolve_dead_letter", dlq_id, action, None), refusal)
        if refusal is None and doc is not None:
            self.resolved(doc, action)

    def resolved(self, doc: model.Document, action: str) -> None:
        """Mirror a decision in the model."""
        if action == "requeue":
            self.model.requeue(doc)
        doc.letter = {
            "investigate": "investigating",
            "requeue": "requeued",
            "manual": "manual",
        }.get(action, "abandoned")
        doc.status = {"manual": "pending_review", "abandon": "failed"}.get(action, doc.status)

    # After every step ----------------------------------------------------------------------

    @invariant()
    def nothing_impossible(self) -> None:
        """The invariants hold, and database and model agree on every document."""
        violations = self.conn.execute("select * from private.invariant_violations()").fetchall()
        assert violations == []
        rows = self.conn.execute(SHOWN).fetchall()
        assert {row.pop("id"): row for row in rows} == self.model.snapshot()


def run(url: str, *, examples: int, steps: int, same_again: bool) -> None:
    """Drive the engine through that many random lives, the same ones every time or new ones."""
    run_state_machine_as_test(
        cast("type[Engine]", lambda: Engine(url)),  # it is only ever called
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=same_again,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_functions_in_random_order_agree_with_the_model(database: databases.Database) -> None:
    """Whatever the order of calls, nothing is lost, doubled or overwritten by somebody late."""
    run(database.url("supabase_admin"), examples=40, steps=30, same_again=True)


@pytest.mark.long
def test_functions_in_random_order_agree_with_the_model_for_long(
    database: databases.Database,
) -> None:
    """The same with many more and longer lives."""
    run(database.url("supabase_admin"), examples=1000, steps=80, same_again=False)
