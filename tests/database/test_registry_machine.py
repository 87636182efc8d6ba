"""The registry's view in random order: extractors, workers and HAC, against a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
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
LEASE = timedelta(minutes=10)
MAX_FAILURES = 3
STATUS = {
    "awaiting_file": 1, "extracting": 2, "queued": 3, "processing": 4, "completed": 5,
}  # fmt: skip
EXTRACTORS = st.sampled_from(["x-1", "x-2"])
TOKENS = st.sampled_from(["none", "current", "first"])
MOVE = """
    with old as (select q from public.extraction_queue as q where q.id = %(id)s)
    select private.{function}(
      o.q, jsonb_populate_record(o.q, %(changes)s), %(now)s
    ) as moved
    from old as o
"""
SHOWN = """
    select d.id::text, d.ocr_status as status, d.worker_id as worker, d.extracted_by,
      d.extraction_failures as failures, d.extraction_due_at as due, d.attempts, d.retry_count,
      d.rescues, d.lock_token::text as token, d.claim_lost_at is not null as lost,
      d.dropbox_path is not null as has_file, l.status as letter,
      (select count(*) from public.ocr_processing_logs as r where r.document_id = d.id) as results
    from public.documents as d
    left join public.ocr_dead_letter as l on l.document_id = d.id
"""


@dataclass
class Extraction(model.Document):
    """A document of the registry. Backoffs are taken over from the database."""

    worker: str | None = None
    extracted_by: str | None = None
    failures: int = 0
    due: datetime | None = None
    has_file: bool = False
    lost: bool = False
    first_token: str | None = None

    @property
    def status_id(self) -> int:
        """The status as extractors see it."""
        return STATUS.get(self.status, 6)

    def snapshot(self) -> dict[str, object]:
        """Show what the database must show too."""
        shown = "status worker extracted_by failures due attempts retry_count rescues token lost "
        shown += "has_file letter results"
        return {name: getattr(self, name) for name in shown.split()}


class Registry(RuleBasedStateMachine):
    """Drives the view and the model side by side, in one transaction that is rolled back."""

    documents = Bundle("documents")

    def __init__(self, url: str) -> None:
        super().__init__()
        self.conn = psycopg.Connection.connect(url, row_factory=dict_row)
        self.now = START
        self.model = model.Model()
        self.found: dict[str, Extraction] = {}
        self.model.documents = cast("dict[str, model.Document]", self.found)
        self.conn.execute(
            "select set_config('request.jwt.claims', '{\"role\":\"service_role\"}', true)"
        )

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.conn.rollback()
        self.conn.close()

    # Helpers -------------------------------------------------------------------------------

    def move(self, doc: Extraction, *, function: str = "move_extraction", **changes: Any) -> str:
        """Update a row of the view; answer moved, late (no row) or refused."""
        params = {"id": doc.id, "changes": json.dumps(changes), "now": self.now}
        try:
            with self.conn.transaction():
                row = self.conn.execute(MOVE.format(function=function).encode(), params).fetchone()
        except psycopg.errors.InvalidParameterValue:
            return "refused"
        assert row is not None
        return "moved" if row["moved"] else "late"

    def call(self, name: str, *params: object) -> None:
        """Call a function that takes the time as its last parameter."""
        marks = ", ".join(["%s"] * (len(params) + 1))
        self.conn.execute(f"select {name}({marks})".encode(), (*params, self.now))

    def token(self, doc: Extraction, which: str) -> dict[str, str]:
        """Name a claim, or none."""
        token = {"none": None, "current": doc.token, "first": doc.first_token}[which]
        return {} if token is None else {"claim_token": token}

    def adopt(self, doc: Extraction) -> None:
        """Take over what the model cannot know: the jitter of backoffs, and tokens."""
        row = self.conn.execute(
            "select retry_at, extraction_due_at, ocr_status from public.documents where id = %s",
            (doc.id,),
        ).fetchone()
        assert row is not None
        doc.retry_at = row["retry_at"]
        if row["ocr_status"] == "extraction_failed":
            doc.due = row["extraction_due_at"]

    def fail_extraction(self, doc: Extraction, status: str) -> None:
        """Count a failed extraction."""
        doc.failures += 1
        doc.due = None
        if doc.failures >= MAX_FAILURES:
            self.model.bury(doc, self.now)
        else:
            doc.status = status
        if doc.status != "extraction_failed":
            doc.worker = None
        self.adopt(doc)

    def start(self, doc: Extraction) -> None:
        """Take over a claim."""
        row = self.conn.execute(
            "select lock_token::text as token from public.documents where id = %s", (doc.id,)
        ).fetchone()
        assert row is not None
        self.model.start(doc, row["token"], self.now)
        doc.expires = self.now + LEASE
        doc.first_token = doc.first_token or doc.token

    # Extractors ------------------------------------------------------------------------------

    @initialize(target=documents)
    def begin_with_documents(self) -> Any:
        """Have one document that waits for its file, and one that waits for a worker."""
        found = [self.insert(with_file=False), self.insert(with_file=True)]
        return multiple(*found)

    @rule(target=documents, with_file=st.booleans())
    def insert(self, with_file: bool) -> str:
        """Announce a document, perhaps with its file."""
        name = f"act {len(self.found)}"
        values = (name, 3 if with_file else 1, "/a.pdf" if with_file else None)
        row = self.conn.execute(
            "insert into public.extraction_queue "
            "(document_source, document_name, status_id, dropbox_path) "
            "values ('acte', %s, %s, %s) returning id::text, case_id::text as case_id",
            values,
        ).fetchone()
        assert row is not None
        status = "queued" if with_file else "awaiting_file"
        doc = Extraction(row["id"], row["case_id"], name, "acte", status, "", has_file=with_file)
        self.found[doc.id] = doc
        return doc.id

    @rule(document=documents, worker=EXTRACTORS)
    def begin(self, document: str, worker: str) -> None:
        """Begin an extraction, or renew its lease."""
        doc = self.found[document]
        if doc.status_id > 2:
            return
        mine = doc.status_id == 1 or doc.worker == worker
        assert self.move(doc, status_id=2, worker_id=worker) == ("moved" if mine else "refused")
        if mine:
            doc.status, doc.worker, doc.due = "extracting", worker, self.now + LEASE

    @rule(document=documents, worker=EXTRACTORS, name=st.booleans(), path=st.integers(1, 2))
    def deliver(self, document: str, worker: str, name: bool, path: int) -> None:
        """Deliver a file, perhaps twice, late, or without saying who."""
        doc = self.found[document]
        changes: dict[str, Any] = {"status_id": 3, "dropbox_path": f"/{path}.pdf"}
        if name:
            changes["worker_id"] = worker
        answer = self.move(doc, **changes)
        late = doc.status in ("extraction_failed", "dead_letter") and not doc.has_file
        mine = not (name and doc.status_id == 2 and doc.worker != worker)
        if doc.status_id > 2 and not late:
            assert answer in ("refused", "moved")
            assert answer == "refused" or doc.status == "queued"
            return
        assert answer == ("moved" if mine else "refused")
        if mine:
            doc.extracted_by = worker if name else doc.worker
            if doc.status == "dead_letter":
                self.model.requeue(doc)
                doc.failures = 0
            doc.status, doc.worker, doc.due, doc.has_file = "queued", None, None, True

    @rule(document=documents, status=st.sampled_from([1, 6]), error=st.booleans())
    def end_extraction(self, document: str, status: int, error: bool) -> None:
        """Give a document back, or report that its extraction failed."""
        doc = self.found[document]
        if doc.status_id > 2 or (doc.status_id, status) == (1, 1):
            return
        changes: dict[str, Any] = {"error_message": "no login" if error else None}
        assert self.move(doc, status_id=status, **changes) == "moved"
        if status == 1 and not error:
            doc.status, doc.worker, doc.due = "awaiting_file", None, None
        else:
            self.fail_extraction(doc, "extraction_failed" if status == 6 else "awaiting_file")

    @rule(document=documents)
    def retry(self, document: str) -> None:
        """Extract a document once more before its backoff ends."""
        doc = self.found[document]
        if doc.status_id == 6:
            failed = doc.status == "extraction_failed"
            assert self.move(doc, status_id=1) == ("moved" if failed else "late")
            if failed:
                doc.status, doc.worker, doc.due = "awaiting_file", None, None

    # Workers ---------------------------------------------------------------------------------

    @rule(document=documents)
    def claim(self, document: str) -> None:
        """Claim a known document."""
        doc = self.found[document]
        if doc.status == "queued":
            assert self.move(doc, status_id=4, ocr_worker_id="w-1") == "moved"
            self.start(doc)

    @rule()
    def claim_any(self) -> None:
        """Claim one of all that match, as a worker of the pool does."""
        self.conn.execute("select set_config('pagewarden.extraction_claimed', 'false', true)")
        claimed = 0
        for doc in self.found.values():
            if doc.status != "queued":
                continue
            changes: dict[str, Any] = {"status_id": 2, "worker_id": "w-2"}
            answer = self.move(doc, function="claim_extraction", **changes)
            due = doc.retry_at is None or doc.retry_at <= self.now
            assert answer == ("moved" if due and not claimed else "late")
            if answer == "moved":
                self.start(doc)
                claimed += 1

    def expected(self, doc: Extraction, which: str) -> str:
        """Say what becomes of an update that names this claim."""
        token = self.token(doc, which).get("claim_token")
        if token is None:
            return "refused" if doc.lost else "moved"
        return "moved" if token == doc.token else "late"

    @rule(document=documents, which=TOKENS, text=st.sampled_from(["Acte", "", None]))
    def complete(self, document: str, which: str, text: str | None) -> None:
        """Bring a result, perhaps that of an earlier claim."""
        doc = self.found[document]
        answer = self.move(doc, status_id=5, ocr_text=text, **self.token(doc, which))
        if doc.status != "processing":
            # A completed document shows its text, which then is the same or is not.
            assert answer != "moved" or doc.status == "completed"
            return
        expected = self.expected(doc, which)
        if text is None and expected != "late":
            expected = "refused"
        assert answer == expected
        if answer == "moved":
            self.model.complete(doc, self.now)

    @rule(document=documents, which=TOKENS, status=st.sampled_from([3, 3, 6]))
    def fail(self, document: str, which: str, status: int) -> None:
        """Report an OCR error, perhaps that of an earlier claim."""
        doc = self.found[document]
        if doc.status == "processing":
            answer = self.move(doc, status_id=status, ocr_error="no", **self.token(doc, which))
            assert answer == self.expected(doc, which)
            if answer == "moved":
                self.model.fail(doc, "permanent" if status == 6 else "unknown", self.now)
                self.adopt(doc)

    @rule(document=documents)
    def reset(self, document: str) -> None:
        """Take a document from its worker."""
        doc = self.found[document]
        if doc.status == "processing":
            assert self.move(doc, status_id=3, ocr_worker_id=None) == "moved"
            self.lose(doc)

    def lose(self, doc: Extraction) -> None:
        """End a claim without its worker."""
        doc.lost = True
        self.model.rescue(doc, self.now)
        self.adopt(doc)

    # Time and people -------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 25, 25, 120, 601, 601]))
    def wait(self, seconds: int) -> None:
        """Let time pass, with a sweep before and after."""
        self.sweep()
        self.now += timedelta(seconds=seconds)
        # As if it had been swept all the time.
        swept = self.now - timedelta(seconds=5)
        self.conn.execute("update private.sweep_state set swept_at = %s", (swept,))
        self.sweep()

    def sweep(self) -> None:
        """Return what dead workers and extractors hold."""
        self.call("public.sweep_documents")
        for doc in self.found.values():
            if doc.token is not None and cast("datetime", doc.expires) < self.now:
                self.lose(doc)
            elif doc.due is not None and doc.due < self.now:
                if doc.status == "extracting":
                    self.fail_extraction(doc, "awaiting_file")
                else:
                    doc.status, doc.worker, doc.due = "awaiting_file", None, None

    @rule(document=documents)
    def cancel_and_read_again(self, document: str) -> None:
        """Stop a document, and start it over."""
        doc = self.found[document]
        if doc.status == "completed":
            return
        doc.lost = doc.lost or doc.token is not None
        self.call("private.cancel_document", doc.id, None)
        self.model.cancel(doc, self.now)
        self.call("private.read_again", doc.id, None, None, None)
        doc.reading += 1
        self.restart(doc)

    @rule(document=documents)
    def requeue(self, document: str) -> None:
        """Let HAC send a dead letter round again."""
        doc = self.found[document]
        if doc.status == "dead_letter":
            row = self.conn.execute(
                "select id from public.ocr_dead_letter where document_id = %s", (doc.id,)
            ).fetchone()
            assert row is not None
            self.call("private.resolve_dead_letter", row["id"], "requeue", None)
            self.restart(doc)

    def restart(self, doc: Extraction) -> None:
        """Mirror private.requeue: without its file a document is extracted first."""
        self.model.requeue(doc)
        doc.failures, doc.worker, doc.due = 0, None, None
        doc.status = "queued" if doc.has_file else "awaiting_file"

    # After every step --------------------------------------------------------------------------

    @invariant()
    def nothing_impossible(self) -> None:
        """The invariants hold, and database and model agree on every document."""
        violations = self.conn.execute("select * from private.invariant_violations()").fetchall()
        assert violations == []
        rows = self.conn.execute(SHOWN).fetchall()
        assert {row.pop("id"): row for row in rows} == {
            doc.id: doc.snapshot() for doc in self.found.values()
        }


def run(url: str, *, examples: int, steps: int, same_again: bool) -> None:
    """Drive the view through that many random lives, the same ones every time or new ones."""
    run_state_machine_as_test(
        cast("type[Registry]", lambda: Registry(url)),  # it is only ever called
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=same_again,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_updates_in_random_order_agree_with_the_model(database: databases.Database) -> None:
    """Whatever the order, no document is lost, and no late result is taken for another's."""
    run(database.url("supabase_admin"), examples=30, steps=30, same_again=True)


@pytest.mark.long
def test_updates_in_random_order_agree_with_the_model_for_long(
    database: databases.Database,
) -> None:
    """The same with more lives, other ones each time."""
    run(database.url("supabase_admin"), examples=600, steps=50, same_again=False)
