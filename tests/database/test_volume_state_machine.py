"""All functions about volumes in random order, against the model and the invariants."""

from __future__ import annotations

import dataclasses
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
from psycopg.types.json import Jsonb

from tests.database import volume_model as model

if TYPE_CHECKING:
    from tests.support import databases

START = datetime(2030, 1, 1, tzinfo=UTC)
SHOWN = """
    select t.id, t.job_id as job, t.max_attempts, t.current_stage as stage, t.status, t.attempts,
      t.rescues, t.publications, t.token::text as token, t.lock_expires_at as expires, t.deadline,
      t.retry_at, t.forced_stage as forced,
      (select count(*) from public.volume_results as r where r.task_id = t.id) as results
    from public.volume_tasks as t order by t.id
"""
CATEGORIES = st.sampled_from(["transient", "permanent"])


class Volumes(RuleBasedStateMachine):
    """Drives the database and the model side by side, in one transaction that is rolled back."""

    jobs = Bundle("jobs")
    messages = Bundle("messages")
    claims = Bundle("claims")

    def __init__(self, url: str) -> None:
        super().__init__()
        self.conn = psycopg.Connection.connect(
            url, row_factory=dict_row, options="-c search_path=private,public,extensions"
        )
        self.now = START
        self.model = model.Model()

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.conn.rollback()
        self.conn.close()

    def call(self, name: str, *params: object) -> Any:
        """Call a function that takes the time as its last parameter."""
        marks = ", ".join(["%s"] * (len(params) + 1))
        query = f"select to_jsonb(a) as answer from {name}({marks}) as a"
        row = self.conn.execute(query.encode(), (*params, self.now)).fetchone()
        assert row is not None
        return row["answer"]

    def holder(self, claim: tuple[int, str]) -> model.Task | None:
        """Find the task of a claim, if it is still in those hands."""
        task = self.model.tasks[claim[0]]
        return task if task.token == claim[1] else None

    def expect(self, answer: dict[str, Any], holder: model.Task | None) -> bool:
        """Compare an answer with whether the claim counts."""
        refusal = None if holder else "LOCK_LOST"
        assert (answer["success"], answer.get("error")) == (holder is not None, refusal)
        return holder is not None

    @initialize(target=jobs, count=st.integers(1, 2))
    def begin(self, count: int) -> int:
        """Begin with a job, as a service that may do everything."""
        self.conn.execute(
            "select set_config('request.jwt.claims', '{\"role\":\"service_role\"}', true)"
        )
        job = self._order(count, 3)
        self._orchestrate()
        return job

    @rule(target=jobs, count=st.integers(1, 2), max_attempts=st.integers(1, 3))
    def order(self, count: int, max_attempts: int) -> int:
        """Order volumes, the same ones as jobs before."""
        return self._order(count, max_attempts)

    def _order(self, count: int, max_attempts: int) -> int:
        names = Jsonb([{"bdrc_w_id": "W1", "bdrc_i_id": f"I{n}"} for n in range(count)])
        config = Jsonb({"k_factor": 2})
        seconds = int(model.STAGE.total_seconds())
        answer = self.call("create_volume_job", names, None, config, max_attempts, seconds)
        job: int = answer["job_id"]
        self.model.jobs[job] = model.Job(job, max_attempts)
        query = "select id from public.volume_tasks where job_id = %s order by id"
        for row in self.conn.execute(query, (job,)).fetchall():
            self.model.tasks[row["id"]] = model.Task(row["id"], job, max_attempts)
        return job

    @rule(target=messages)
    def orchestrate(self) -> Any:
        """Let the orchestrator look; its messages can be delivered from now on, again and again."""
        return multiple(*self._orchestrate())

    def _orchestrate(self) -> list[tuple[str, int, int]]:
        published = self.model.orchestrate(self.now)
        answer = self.call("orchestrate_volumes", "pgmq", 1000, "test")
        assert (answer["published"], answer["republished"]) == (len(published), 0)
        return published

    @rule(target=claims, message=messages, stage=st.sampled_from([None, None, *model.WORKING]))
    def redeliver(self, message: tuple[str, int, int], stage: str | None) -> Any:
        """Deliver a message: the newest, an old one, the same once more, or in a wrong queue."""
        queue, task_id, attempt = message
        claim = self._start(stage or queue, task_id, attempt)
        return multiple() if claim is None else claim

    def _start(self, queue: str, task_id: int, attempt: int) -> tuple[int, str] | None:
        refusal = self.model.start(queue, task_id, attempt, self.now)
        lock = int(model.LOCK.total_seconds())
        answer = self.call("start_volume_stage", task_id, queue, attempt, "w", lock)
        assert (answer["success"], answer.get("error")) == (refusal is None, refusal)
        if refusal is not None:
            return None
        task = self.model.tasks[task_id]
        assert answer["is_forced"] == (task.forced == queue)
        self.model.begin(task, str(answer["token"]), self.now)
        return task_id, str(answer["token"])

    @rule(target=claims, number=st.integers(0, 8))
    def take(self, number: int) -> Any:
        """Deliver the message that counts of some volume that is under way."""
        claim = self._take(number)
        return multiple() if claim is None else claim

    def _take(self, number: int) -> tuple[int, str] | None:
        running = [task for task in self.model.tasks.values() if task.status == "running"]
        if not running:
            return None
        task = running[number % len(running)]
        return self._start(task.stage, task.id, task.publications)

    @rule()
    def bury(self) -> None:
        """Have all workers that are at work die, which shows when their locks have expired."""
        self.now += model.LOCK + timedelta(seconds=1)

    @rule(claim=claims)
    def beat(self, claim: tuple[int, str]) -> None:
        """Send a heartbeat, also of the dead."""
        holder = self.holder(claim)
        if holder and holder.deadline is not None and holder.deadline <= self.now:
            holder = None
        answer = self.call("extend_volume_lock", *claim, int(model.LOCK.total_seconds()), 1, 2)
        if self.expect(answer, holder) and holder and holder.deadline:
            holder.expires = min(self.now + model.LOCK, holder.deadline)

    @rule(number=st.integers(0, 8), turns=st.integers(1, 5), deaths=st.integers(0, 2))
    def work(self, number: int, turns: int, deaths: int) -> None:
        """Do some stages of some volume, over each of which some workers die first."""
        for _ in range(turns):
            self._orchestrate()
            for death in range(deaths, -1, -1):
                claim = self._take(number)
                if claim is not None and death:
                    self.now += model.LOCK + timedelta(seconds=1)
                elif claim is not None:
                    self._complete(claim, skipped=False)

    @rule(claim=claims, skipped=st.booleans())
    def complete(self, claim: tuple[int, str], skipped: bool) -> None:
        """Finish a stage, also of those who were thought dead and are only late."""
        self._complete(claim, skipped=skipped)

    def _complete(self, claim: tuple[int, str], *, skipped: bool) -> None:
        holder = self.holder(claim)
        answer = self.call("complete_volume_stage", *claim, 2, 0, skipped, Jsonb({}))
        if self.expect(answer, holder) and holder:
            self.model.turns[claim[1]].outcome = "skipped" if skipped else "done"
            holder.finish()

    @rule(claim=claims, category=CATEGORIES, pause=st.sampled_from([None, 0, 60]))
    def fail(self, claim: tuple[int, str], category: str, pause: int | None) -> None:
        """Fail at a stage."""
        holder = self.holder(claim)
        error = Jsonb({"message": "broken"})
        answer = self.call("fail_volume_stage", *claim, error, category, pause)
        if self.expect(answer, holder) and holder:
            wait = None if pause is None else timedelta(seconds=pause)
            holder.fail(wait, self.now, final=category == "permanent")

    @rule(target=messages, claim=claims, outage=st.booleans())
    def release(self, claim: tuple[int, str], outage: bool) -> Any:
        """Give a stage back; after an outage there is another message."""
        return multiple(*self._release(claim, outage=outage))

    def _release(self, claim: tuple[int, str], *, outage: bool) -> list[tuple[str, int, int]]:
        holder = self.holder(claim)
        answer = self.call("release_volume_stage", *claim, "because", outage)
        if not self.expect(answer, holder) or holder is None:
            return []
        if not outage:
            holder.free()
            return []
        assert answer["is_counted"] == self.model.put_off(holder, self.now)
        return [] if answer["is_counted"] else [(holder.stage, holder.id, holder.publications)]

    @rule(number=st.integers(0, 8), times=st.integers(1, 6))
    def be_out(self, number: int, times: int) -> None:
        """Have some volume meet outages in a row."""
        for _ in range(times):
            claim = self._take(number)
            if claim is not None:
                self._release(claim, outage=True)

    @rule(job=jobs)
    def cancel(self, job: int) -> None:
        """Cancel a job."""
        known = self.model.jobs[job]
        answer = self.call("cancel_volume_job", job, None)
        assert answer["success"] == (known.status == "running")
        if answer["success"]:
            self.model.cancel(known)

    @rule(job=jobs, stage=st.sampled_from([None, *model.WORKING]), only_failed=st.booleans())
    def rerun(self, job: int, stage: str | None, only_failed: bool) -> None:
        """Have a stage done again."""
        counts = self.model.rerun(self.model.jobs[job], stage, only_failed=only_failed)
        answer = self.call("rerun_volumes", job, stage, None, only_failed, None)
        assert (answer["rerun"], answer["skipped"]) == counts

    @rule(seconds=st.sampled_from([1, 19, 60, 601]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    @invariant()
    def agree(self) -> None:
        """The database shows what the model shows, and contradicts itself nowhere."""
        shown = self.conn.execute(SHOWN).fetchall()
        assert shown == [dataclasses.asdict(task) for task in self.model.tasks.values()]
        query = "select id, status from public.volume_jobs"
        jobs = {row["id"]: row["status"] for row in self.conn.execute(query).fetchall()}
        assert jobs == {job.id: job.status for job in self.model.jobs.values()}
        violations = self.conn.execute("select * from private.volume_violations()").fetchall()
        assert violations == []


@pytest.mark.parametrize(
    "examples", [15, pytest.param(800, marks=pytest.mark.long)], ids=["short", "long"]
)
async def test_the_database_does_what_the_model_does(
    database: databases.Database, examples: int
) -> None:
    """Whatever is called in whatever order."""
    checks = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = cast("Any", lambda: Volumes(database.url("supabase_admin")))
    run_state_machine_as_test(machine, settings=checks)
