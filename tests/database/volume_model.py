"""Volumes in miniature: what every call should do, without locks, SQL, queues or a clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

STAGES = ["pending", "line_detection", "line_extraction", "ocr", "reduce", "done"]
WORKING = STAGES[1:-1]
LOCK = timedelta(seconds=20)
STAGE = timedelta(seconds=600)
MAX_RESCUES = 5
BELIEVED_OUTAGES = 4


@dataclass
class Task:
    """What the model knows of a volume of a job."""

    id: int
    job: int
    max_attempts: int
    stage: str = "pending"
    status: str = "pending"
    attempts: int = 0
    rescues: int = 0
    publications: int = 0
    token: str | None = None
    expires: datetime | None = None
    deadline: datetime | None = None
    retry_at: datetime | None = None
    forced: str | None = None
    results: int = 0

    @property
    def is_open(self) -> bool:
        """Tell whether anything is still to be done with it."""
        gave_up = self.status == "failed" and self.attempts >= self.max_attempts
        return self.stage != "done" and not gave_up

    def free(self) -> None:
        """Take it out of its worker's hands."""
        self.token = self.expires = self.deadline = None

    def is_ready_for(self, stage: str, now: datetime) -> bool:
        """Tell whether the orchestrator has to publish it for this stage."""
        if self.status == "failed":
            due = self.retry_at is not None and self.retry_at <= now
            return self.stage == stage and self.is_open and due
        return self.stage == before(stage) and self.status in ("pending", "done")

    def fail(self, pause: timedelta | None, now: datetime, *, final: bool) -> None:
        """Count a failure."""
        self.attempts += 1
        if final:
            self.max_attempts = min(self.attempts, self.max_attempts)
        self.status, self.retry_at = "failed", None
        if self.attempts < self.max_attempts:
            usual = timedelta(seconds=min(5 * 2 ** (self.attempts - 1), 300))
            self.retry_at = now + (usual if pause is None else pause)
        self.free()

    def rescue(self, now: datetime) -> None:
        """Take it from a worker that died, or took too long."""
        if self.deadline is not None and self.deadline < now:
            self.fail(None, now, final=False)
        elif self.rescues >= MAX_RESCUES:
            self.fail(None, now, final=True)
        else:
            self.rescues += 1
            self.free()

    def is_abandoned(self, now: datetime) -> bool:
        """Tell whether its worker died, or took too long."""
        if self.expires is None or self.deadline is None:
            return False
        return self.expires < now or self.deadline < now

    def finish(self) -> None:
        """End a stage."""
        if self.forced == self.stage:
            self.forced = None
        if self.stage == "reduce":
            self.stage, self.results = "done", 1
        self.status, self.rescues, self.retry_at = "done", 0, None
        self.free()

    def reset(self, stage: str) -> None:
        """Go back to before a stage."""
        self.stage = before(stage)
        self.status = "pending" if self.stage == "pending" else "done"
        self.retry_at = None
        self.free()


def before(stage: str) -> str:
    """Name the stage before."""
    return STAGES[STAGES.index(stage) - 1]


@dataclass
class Turn:
    """A worker's turn at a stage of a volume, of which only outages and ends are told apart."""

    task: int
    job: int
    stage: str
    outcome: str = ""


@dataclass
class Job:
    """A job, and how often its volumes may fail."""

    id: int
    max_attempts: int
    status: str = "running"


@dataclass
class Model:
    """All jobs and tasks. Every method mirrors one function of the database."""

    jobs: dict[int, Job] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)

    def of(self, job: int) -> list[Task]:
        """List the tasks of a job."""
        return [task for task in self.tasks.values() if task.job == job]

    def orchestrate(self, now: datetime) -> list[tuple[str, int, int]]:
        """Look over everything; return the messages that are published."""
        for task in self.tasks.values():
            if task.is_abandoned(now):
                task.rescue(now)
        published = []
        for job in self.jobs.values():
            if job.status == "running":
                published += self._publish(job, now)
                self._end(job)
        return published

    def _publish(self, job: Job, now: datetime) -> list[tuple[str, int, int]]:
        published = []
        for stage in reversed(WORKING):
            for task in self.of(job.id):
                if task.is_ready_for(stage, now):
                    task.stage, task.status, task.retry_at = stage, "running", None
                    task.publications += 1
                    published.append((stage, task.id, task.publications))
        return published

    def _end(self, job: Job) -> None:
        tasks = self.of(job.id)
        if not any(task.is_open for task in tasks):
            job.status = "completed" if all(t.stage == "done" for t in tasks) else "failed"

    def start(self, stage: str, task_id: int, attempt: int, now: datetime) -> str | None:
        """Say why a message does not start a stage; None when it does."""
        task = self.tasks[task_id]
        is_current = (task.status, task.stage) == ("running", stage)
        is_wanted = self.jobs[task.job].status == "running" and task.publications == attempt
        if not (is_current and is_wanted):
            return "STALE_MESSAGE"
        if task.token is not None:
            if not task.is_abandoned(now):
                return "STAGE_HELD"
            task.rescue(now)
        return None if task.status == "running" else "STALE_MESSAGE"

    def begin(self, task: Task, token: str, now: datetime) -> None:
        """Give a task into somebody's hands."""
        task.token, task.expires, task.deadline = token, now + LOCK, now + STAGE
        self.turns[token] = Turn(task.id, task.job, task.stage)

    def put_off(self, task: Task, now: datetime) -> bool:
        """Publish a task once more, later; tell whether it is counted, as others do not meet it."""
        assert task.token is not None
        turns = list(self.turns.values())
        ours = [turn for turn in turns if turn.task == task.id]
        row = 1
        while row < len(ours) and (ours[-1 - row].outcome, ours[-1 - row].stage) == (
            "outage",
            task.stage,
        ):
            row += 1
        others = turns[turns.index(ours[-row]) :]
        is_counted = row > BELIEVED_OUTAGES and any(
            (turn.job, turn.stage, turn.outcome) == (task.job, task.stage, "done")
            and turn.task != task.id
            for turn in others
        )
        if is_counted:
            task.fail(None, now, final=False)
        else:
            self.turns[task.token].outcome = "outage"
            task.publications += 1
            task.free()
        return is_counted

    def cancel(self, job: Job) -> None:
        """End a job, and take its tasks back."""
        job.status = "cancelled"
        for task in self.of(job.id):
            if task.status == "running":
                task.reset(task.stage)

    def rerun(self, job: Job, stage: str | None, *, only_failed: bool) -> tuple[int, int]:
        """Have a stage done again; return how many are, and how many were skipped."""
        wanted = [
            task
            for task in self.of(job.id)
            if task.status == "failed" or (stage is not None and not only_failed)
        ]
        chosen = [task for task in wanted if stage is None or _has_come_to(task, stage)]
        for task in chosen:
            if stage is not None:
                task.forced = stage
            task.reset(stage or task.stage)
            task.attempts, task.rescues, task.max_attempts = 0, 0, job.max_attempts
        if chosen or job.status == "cancelled":
            job.status = "running"
        return len(chosen), len(wanted) - len(chosen)


def _has_come_to(task: Task, stage: str) -> bool:
    if STAGES.index(task.stage) >= STAGES.index(stage):
        return True
    return task.stage == before(stage) and task.status in ("pending", "done")
