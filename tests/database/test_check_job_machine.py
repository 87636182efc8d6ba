"""Check jobs under everything that can happen to them, in random order, against a small model."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from tests.support import databases

START = datetime(2030, 1, 1, tzinfo=UTC)
SECONDS = 3600


@dataclass
class Job:
    """What the model knows: its pictures by document, and how it ended."""

    pictures: dict[str, str] = field(default_factory=dict)
    outcome: str | None = None
    deadline: datetime = START

    @property
    def status(self) -> str:
        """Say what the API should say."""
        begun = {"processing", "completed"} & {*self.pictures.values()}
        return self.outcome or ("PROCESSING" if begun else "PENDING")

    def settle(self) -> None:
        """Follow the pictures, unless it has ended."""
        states = set(self.pictures.values())
        if self.outcome is not None:
            return
        if "failed" in states:
            self.end("FAILED")
        elif "cancelled" in states:
            self.end("CANCELLED")
        elif states == {"completed"}:
            self.outcome = "SUCCEEDED"

    def end(self, outcome: str) -> None:
        """Stop what has not ended."""
        self.outcome = outcome
        for document, state in self.pictures.items():
            if state in ("queued", "processing"):
                self.pictures[document] = "cancelled"


class Jobs(RuleBasedStateMachine):
    """Drives the database and the model side by side, in one transaction that is rolled back."""

    jobs = Bundle("jobs")

    def __init__(self, url: str) -> None:
        super().__init__()
        self.conn = psycopg.Connection.connect(url, row_factory=dict_row)
        self.now = START
        self.model: dict[str, Job] = {}
        self.tokens: dict[str, str] = {}
        self.old_tokens: list[tuple[str, str]] = []

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.conn.rollback()
        self.conn.close()

    def one(self, query: str, *params: object) -> Any:
        """Ask for a single value."""
        row = self.conn.execute(query.encode(), params).fetchone()
        assert row is not None
        return next(iter(row.values()))

    @initialize()
    def as_service(self) -> None:
        """Be one of our services."""
        self.conn.execute(
            "select set_config('request.jwt.claims', '{\"role\":\"service_role\"}', true)"
        )

    @rule(target=jobs, names=st.lists(st.sampled_from("abcd"), min_size=1, max_size=4))
    def submit(self, names: list[str]) -> str:
        """Submit a job; equal letters are equal bytes."""
        job = str(uuid.uuid4())
        images = [
            {
                "name": f"{number}-{name}.png",
                "dropbox_path": f"{job}/{number}",
                "sha256": hashlib.sha256(name.encode()).hexdigest(),
            }
            for number, name in enumerate(names)
        ]
        answer = self.one(
            "select to_jsonb(private.submit_check_job("
            "%s, 'fr', %s, '{}', null, null, null, %s, null, null, null, %s))",
            job, json.dumps(images), SECONDS, self.now,
        )  # fmt: skip
        assert answer["success"]
        rows = self.conn.execute("select id::text from documents where case_id = %s", (job,))
        pictures = {row["id"]: "queued" for row in rows.fetchall()}
        assert len(pictures) == len(set(names))
        self.model[job] = Job(pictures, deadline=self.now + timedelta(seconds=SECONDS))
        return job

    def _job_of(self, document: str) -> Job:
        return next(job for job in self.model.values() if document in job.pictures)

    @rule()
    def claim(self) -> None:
        """Take the next picture."""
        rows = self.conn.execute(
            "select id::text, lock_token::text from public.claim_documents("
            "'w', array['check'], 1, 20, %s)",
            (self.now,),
        ).fetchall()
        queued = [
            d for job in self.model.values() for d, s in job.pictures.items() if s == "queued"
        ]
        if not rows:
            assert not [d for d in queued if self._is_due(d)]
            return
        document = rows[0]["id"]
        assert document in queued
        if document in self.tokens:
            self.old_tokens.append((document, self.tokens[document]))
        self.tokens[document] = rows[0]["lock_token"]
        self._job_of(document).pictures[document] = "processing"

    def _is_due(self, document: str) -> bool:
        query = "select coalesce(retry_at <= %s, true) from documents where id = %s"
        return bool(self.one(query, self.now, document))

    def _complete(self, document: str, token: str) -> Any:
        positions = self.conn.execute(
            "select position from check_images where document_id = %s", (document,)
        ).fetchall()
        results = [
            {"position": row["position"], "verdict": "PASS", "extracted_text": "", "issues": []}
            for row in positions
        ]
        return self.one(
            "select to_jsonb(public.complete_check("
            "%s, %s, 0.9, 1, %s, 'e', '1', 'balanced', null, %s))",
            document, json.dumps(results), token, self.now,
        )  # fmt: skip

    @rule(pick=st.integers(0, 10))
    def complete(self, pick: int) -> None:
        """End one of the pictures that are in hand, or were."""
        if not self.tokens:
            return
        document = sorted(self.tokens)[pick % len(self.tokens)]
        job = self._job_of(document)
        held = job.pictures[document] == "processing"
        answer = self._complete(document, self.tokens[document])
        assert answer["success"] is held, answer
        if held:
            job.pictures[document] = "completed"
            job.settle()

    @rule(pick=st.integers(0, 10))
    def complete_late(self, pick: int) -> None:
        """A worker of an earlier claim changes nothing."""
        if self.old_tokens:
            document, token = self.old_tokens[pick % len(self.old_tokens)]
            if self.tokens.get(document) != token:
                assert self._complete(document, token)["error"] == "LOCK_LOST"

    @rule(pick=st.integers(0, 10), permanent=st.booleans())
    def fail(self, pick: int, permanent: bool) -> None:
        """Fail one of the pictures in hand."""
        held = sorted(
            d for job in self.model.values() for d, s in job.pictures.items() if s == "processing"
        )
        if not held:
            return
        document = held[pick % len(held)]
        category = "permanent" if permanent else "transient"
        answer = self.one(
            "select to_jsonb(r)"
            " from public.fail_document(%s, %s, 'broken', '{}', %s, null, %s) as r",
            document, self.tokens[document], category, self.now,
        )  # fmt: skip
        assert answer["success"]
        job = self._job_of(document)
        job.pictures[document] = answer["status"]
        job.settle()

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        """Cancel a job."""
        answer = self.one("select to_jsonb(private.cancel_check_job(%s, %s))", job, self.now)
        known = self.model[job]
        assert answer["success"] is (known.outcome is None)
        if known.outcome is None:
            known.end("CANCELLED")

    @rule(job=jobs, everything=st.booleans())
    def rerun(self, job: str, everything: bool) -> None:
        """Run a job again."""
        known = self.model[job]
        answer = self.one(
            "select to_jsonb(private.rerun_check_job(%s, %s, %s))", job, everything, self.now
        )
        possible = known.outcome is not None and (known.outcome != "SUCCEEDED" or everything)
        assert answer["success"] is possible, answer
        if not possible:
            return
        known.outcome = None
        known.deadline = self.now + timedelta(seconds=SECONDS)
        for document, state in known.pictures.items():
            if everything or state != "completed":
                known.pictures[document] = "queued"
        known.settle()

    @rule(pick=st.integers(0, 10))
    def cancel_picture(self, pick: int) -> None:
        """Somebody cancels a picture by hand."""
        pictures = sorted(d for job in self.model.values() for d in job.pictures)
        if not pictures:
            return
        document = pictures[pick % len(pictures)]
        job = self._job_of(document)
        live = job.pictures[document] in ("queued", "processing")
        answer = self.one(
            "select to_jsonb(private.cancel_document(%s, null, %s))", document, self.now
        )
        assert answer["success"] is live
        if live:
            job.pictures[document] = "cancelled"
            job.settle()

    @rule(seconds=st.sampled_from([1, 19, 21, 40, SECONDS]))
    def time_passes(self, seconds: int) -> None:
        """Let the sweep find what is late; heartbeats keep the rest alive until then."""
        self.now += timedelta(seconds=seconds)
        self.one("select public.sweep_documents(%s)", self.now)
        rows = self.conn.execute("select id::text, ocr_status from documents").fetchall()
        states = {row["id"]: row["ocr_status"] for row in rows}
        for job in self.model.values():
            for document, state in job.pictures.items():
                # Rescues and deadlines of attempts are the engine's; its own machine knows them.
                if state == "processing" and states[document] in ("queued", "failed"):
                    job.pictures[document] = states[document]
            job.settle()
            if job.outcome is None and job.deadline <= self.now:
                job.end("FAILED")

    @invariant()
    def the_database_says_the_same(self) -> None:
        """Every job and picture is where the model has it, and nothing impossible is there."""
        for job, known in self.model.items():
            shown = self.one("select to_jsonb(private.check_job(%s))", job)["job"]
            assert shown["status"] == known.status, (shown, known)
            rows = self.conn.execute(
                "select id::text, ocr_status from documents where case_id = %s", (job,)
            ).fetchall()
            assert {row["id"]: row["ocr_status"] for row in rows} == known.pictures
        found = self.conn.execute("select * from private.invariant_violations()").fetchall()
        assert found == []


def test_jobs_do_what_the_model_says(database: databases.Database) -> None:
    """Whatever happens in whatever order, a job has one outcome, and it follows its pictures."""
    run_state_machine_as_test(
        cast("type[RuleBasedStateMachine]", lambda: Jobs(database.url())),
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
