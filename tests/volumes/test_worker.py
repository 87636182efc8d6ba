"""Volumes go through all stages, despite failures of workers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from pagewarden import errors
from pagewarden.volumes import queues, stage_attempt, stages
from pagewarden.volumes import worker as workers
from pagewarden.volumes.queues import base
from tests.support import lines, polling
from tests.volumes import fakes, house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Outcome = stage_attempt.Outcome


@contextlib.asynccontextmanager
async def _running_worker(
    home: house.House, find: Callable[[str], stages.Stage], *, heartbeat_seconds: float = 5
) -> AsyncIterator[asyncio.Event]:
    """Run a worker until the event is set."""
    stop = asyncio.Event()
    working = asyncio.create_task(home.worker(find, heartbeat_seconds=heartbeat_seconds).run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await working


class _Gate:
    """A stage that waits for the test."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.works: list[stages.StageInput] = []

    def find(self, name: str) -> stages.Stage:
        """Return a stage that waits at the gate first."""
        return _Gated(self, fakes.FakeStage(name))


class _Gated:
    def __init__(self, gate: _Gate, stage: stages.Stage) -> None:
        self._gate, self._stage, self.name = gate, stage, stage.name

    async def run(self, work: stages.StageInput) -> stages.StageResult:
        self._gate.works.append(work)
        work.progress(1, 4)
        self._gate.reached.set()
        await self._gate.go_on.wait()
        return await self._stage.run(work)


async def test_a_job_goes_through_all_stages(home: house.House) -> None:
    """Every volume is done, with artifacts of each stage and the metrics of the last."""
    await home.order("W1-I1", "W2-I1")
    await home.work(home.worker())
    assert await home.tasks("current_stage", "status", "attempts") == [("done", "done", 0)] * 2
    assert len(house.artifacts_of(home.output)) == 8
    query = "select total_images, processing_duration_ms >= 0 from volume_results"
    assert await home.rows(query) == [(4, True)] * 2
    assert await home.violations() == []


async def test_every_line_about_a_volume_names_it_and_its_job(home: house.House) -> None:
    """With stage, task and worker; of an attempt that fails and of one that is done."""
    await home.order("W1-I1")
    with lines.capture_lines() as found:
        await home.work(home.worker(fakes.failing(OSError("a bad disk"), times=1)))
    about = [line for line in found if line["event"].startswith("stage_")]
    assert {line["event"] for line in about} == {"stage_started", "stage_failed", "stage_ended"}
    (job,) = await home.rows("select job_key from volume_jobs")
    for line in about:
        assert (line["job"], line["volume"]) == (*job, "W1-I1")
        assert {"stage", "task", "worker"} <= set(line)
    assert "volume" not in structlog.contextvars.get_contextvars()


async def test_one_step_publishes_all_that_is_ready(home: house.House) -> None:
    """The database publishes a bounded number per call; the orchestrator calls until all are."""
    for job in range(6):
        await home.order(*(f"W{job}-I{volume}" for volume in range(200)))

    seen = await home.orchestrator.step()

    assert seen is not None
    assert seen.published == 1200


async def test_a_worker_of_one_stage_serves_only_that(home: house.House) -> None:
    """Together, one worker per stage completes the volume."""
    await home.order("W1-I1")
    stage_workers = [home.worker(name=name, serves=[name]) for name in stages.STAGES]
    await home.work(*stage_workers)
    assert await home.rows("select stage = worker_id from volume_runs") == [(True,)] * 4


async def test_the_last_stage_comes_first(home: house.House) -> None:
    """A worker of all stages completes volumes before it starts new ones."""
    await home.order("W1-I1", "W1-I2")
    stop, one = asyncio.Event(), home.worker()
    for _ in range(8):
        await home.orchestrator.step()
        await one.process_next(stop)
    done = await home.rows("select stage from volume_runs where outcome = 'done' order by id")
    assert [stage for (stage,) in done] == [*stages.STAGES, *stages.STAGES]


async def test_a_stopped_worker_releases_its_volume(home: house.House) -> None:
    """Uncounted and immediately: the next worker need not wait for the lock to expire."""
    await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.step()
    gate = _Gate()
    async with _running_worker(home, gate.find):
        await gate.reached.wait()
    assert await home.tasks("status", "attempts", "rescues", "token") == [("running", 0, 0, None)]
    assert house.artifacts_of(home.output) == {}
    await home.work(home.worker())
    assert await home.tasks("current_stage") == [("done",)]


async def test_a_stage_that_ends_despite_a_stop_is_completed(home: house.House) -> None:
    """Published artifacts are not discarded."""
    await home.order("W1-I1")
    await home.orchestrator.step()

    class Stubborn(fakes.FakeStage):
        async def run(self, work: stages.StageInput) -> stages.StageResult:
            reached.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return await fakes.FakeStage(self.name).run(work)

    reached = asyncio.Event()
    async with _running_worker(home, Stubborn):
        await reached.wait()
    assert await home.tasks("current_stage", "status") == [("line_detection", "done")]


async def test_an_outage_is_not_counted(home: house.House) -> None:
    """The volume is released uncounted, and retried only later."""
    await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.step()
    one, stop = home.worker(fakes.away), asyncio.Event()
    assert await one.process_next(stop) is Outcome.OUTAGE
    assert await one.process_next(stop) is None
    assert await home.tasks("status", "attempts", "last_error ->> 'type'") == [
        ("running", 0, "Outage")
    ]
    assert await home.violations() == []


async def test_a_volume_with_an_outage_comes_after_all_others(home: house.House) -> None:
    """However soon its message is visible again: others may not be affected."""
    await home.order("W1-I1", "W1-I2", "W1-I3")
    await home.orchestrator.step()
    one, stop = home.worker(fakes.away_for("W1-I1")), asyncio.Event()
    assert await one.process_next(stop) is Outcome.OUTAGE
    await home.show_messages()
    assert [await one.process_next(stop) for _ in range(3)] == [Outcome.DONE] * 2 + [Outcome.OUTAGE]
    assert await home.violations() == []


async def test_a_worker_continues_with_others_after_an_outage(home: house.House) -> None:
    """Without a pause; only consecutive outages make it wait."""
    await home.order("W1-I1", "W1-I2")
    await home.orchestrator.step()
    async with _running_worker(home, fakes.away_for("W1-I1")):

        async def is_done() -> bool:
            return ("done",) in await home.tasks("status")

        await polling.wait_until(is_done, seconds=10)


def test_outage_pauses_are_bounded() -> None:
    """There is none after the first outage."""
    pauses = [workers.outage_pause(outages) for outages in (1, 2, 3, 4, 5, 6, 1000)]
    assert pauses == [0, 1, 2, 5, 10, 10, 10]


@pytest.mark.parametrize(
    "error",
    [
        errors.EngineNotInstalled("tesseract has no data for tibetan; install it"),
        errors.ApiKeyRejected("the service rejects the key"),
        errors.SettingsError("cannot read model.onnx; specify an ONNX file"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_misconfigured_worker_uses_up_no_attempts(
    home: house.House, error: Exception
) -> None:
    """Other workers get its volumes, and the reason is shown."""
    job = await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.step()
    stop = asyncio.Event()
    wrong = home.worker(fakes.failing(error, times=1, at="line_detection"))
    assert await wrong.process_next(stop) is Outcome.OUTAGE
    board = await home.service.volume_board(job_id=job)
    assert board["outage"]["message"] == str(error)
    await home.show_messages()
    assert await home.worker().process_next(stop) is Outcome.DONE
    assert await home.tasks("attempts") == [(0,)]


async def test_an_invalid_config_fails_permanently(home: house.House) -> None:
    """It belongs to the job, so it is the same for every worker."""
    await home.order("W1-I1", config={"k_factor": 99})
    await home.orchestrator.step()
    assert await home.worker().process_next(asyncio.Event()) is Outcome.FAILED
    shown = ("status", "attempts", "max_attempts", "last_error ->> 'type'")
    assert await home.tasks(*shown) == [("failed", 1, 1, "SettingsError")]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.DamagedFile("page 3 is damaged"), ("failed", 1, "permanent")),
        (errors.ReadingTimedOut("it took too long"), ("failed", 1, "transient")),
        (ValueError("a bug\0"), ("failed", 1, "unknown")),
    ],
    ids=["permanent", "transient", "unknown"],
)
async def test_the_error_of_a_stage_is_stored(
    home: house.House, error: Exception, expected: tuple[Any, ...]
) -> None:
    """With its category, which determines whether it is retried."""
    await home.order("W1-I1")
    await home.work(home.worker(fakes.failing(error, times=1)))
    shown = ("status", "attempts", "last_error ->> 'category'", "attempts < max_attempts")
    (found,) = await home.tasks(*shown)
    assert found == (*expected, expected[2] != "permanent")


async def test_only_the_failed_stage_is_retried(home: house.House) -> None:
    """After its backoff, which the orchestrator observes."""
    await home.order("W1-I1")
    await home.work(home.worker(fakes.failing(errors.ReadingTimedOut("slow"), times=1)))
    await home.conn.execute("update volume_tasks set retry_at = now()")
    await home.work(home.worker())
    runs = await home.rows("select stage, outcome from volume_runs order by id")
    assert runs == [
        ("line_detection", "done"),
        ("line_extraction", "done"),
        ("ocr", "failed"),
        ("ocr", "done"),
        ("reduce", "done"),
    ]


async def test_a_stage_that_cannot_be_loaded_is_an_outage(home: house.House) -> None:
    """It neither ends the worker nor counts as a failure of the volume."""
    await home.order("W1-I1")
    await home.orchestrator.step()

    def find(name: str) -> stages.Stage:
        raise ModuleNotFoundError(f"No module named {name!r}")

    assert await home.worker(find).process_next(asyncio.Event()) is Outcome.OUTAGE
    ((message,),) = await home.tasks("last_error ->> 'message'")
    assert message.startswith("cannot load stage line_detection: No module named")


async def test_heartbeats_save_the_progress(home: house.House) -> None:
    """They also renew the lock."""
    await home.order("W1-I1")
    await home.orchestrator.step()
    gate = _Gate()
    async with _running_worker(home, gate.find, heartbeat_seconds=0.05):

        async def is_saved() -> bool:
            saved = await home.tasks("pages_done", "pages_total", "locked_at > started_at")
            return saved == [(1, 4, True)]

        await polling.wait_until(is_saved)


async def test_a_worker_that_lost_its_lock_publishes_nothing(home: house.House) -> None:
    """It checks the lock right before publishing; the new owner's artifacts stay."""
    await home.order("W1-I1")
    await home.orchestrator.step()
    gate = _Gate()
    stop = asyncio.Event()
    late = asyncio.create_task(home.worker(gate.find).process_next(stop))
    await gate.reached.wait()
    await home.abandon()
    assert await home.worker(name="owner").process_next(stop) is Outcome.DONE
    made = house.artifacts_of(home.output)
    written = house.owners_of(home.output)
    gate.go_on.set()
    assert await late is Outcome.LOST
    assert house.artifacts_of(home.output) == made
    assert house.owners_of(home.output) == written
    tokens = await home.rows("select token::text from volume_runs where outcome = 'done'")
    assert [{token} for (token,) in tokens] == list(written.values())


async def test_a_lost_lock_ends_the_stage(home: house.House) -> None:
    """The next heartbeat cancels it."""
    job = await home.order("W1-I1")
    await home.orchestrator.step()
    gate = _Gate()
    one = home.worker(gate.find, heartbeat_seconds=0.05)
    attempt = asyncio.create_task(one.process_next(asyncio.Event()))
    await gate.reached.wait()
    await home.service.cancel_volume_job(job_id=job)
    assert await attempt is Outcome.LOST


async def test_duplicate_and_late_messages_are_removed_without_effect(
    home: house.House,
) -> None:
    """Copies of earlier messages, in any queue."""
    await home.order("W1-I1")
    await home.work(home.worker())
    copies = await home.rows("select message from pgmq.a_ocr_line_detection")
    for stage in stages.STAGES:
        for (message,) in copies * 2:
            await home.send(stage, message)
    await home.send("ocr", {"unknown": "message"})
    ends = await home.worker().drain(asyncio.Event())
    assert ends == {Outcome.STALE: 9}
    assert await home.tasks("current_stage", "publications") == [("done", 4)]
    assert await home.rows("select count(*) from pgmq.q_ocr_ocr") == [(0,)]


async def test_a_copy_of_the_message_of_a_running_stage_is_kept(home: house.House) -> None:
    """It may be the only one left if the owner dies."""
    await home.order("W1-I1")
    await home.orchestrator.step()
    gate = _Gate()
    async with _running_worker(home, gate.find):
        await gate.reached.wait()
        ((message,),) = await home.rows("select message from pgmq.q_ocr_line_detection")
        await home.send("line_detection", message)
        assert await home.worker().process_next(asyncio.Event()) is Outcome.HELD
        gate.go_on.set()

        async def is_done() -> bool:
            return await home.tasks("status") == [("done",)]

        await polling.wait_until(is_done)
    await home.conn.execute("update pgmq.q_ocr_line_detection set vt = now()")
    assert await home.worker().process_next(asyncio.Event()) is Outcome.STALE


async def test_a_rerun_does_not_skip_its_stage(home: house.House) -> None:
    """That stage is forced; later ones decide by themselves."""
    job = await home.order("W1-I1")
    await home.work(home.worker())
    await home.service.rerun_volumes(job_id=job, stage="ocr")
    gate = _Gate()
    gate.go_on.set()
    await home.work(home.worker(gate.find))
    assert [work.force for work in gate.works] == [True, False]
    assert gate.works[1].seconds_before > 0


async def test_workers_survive_unavailable_queues(home: house.House) -> None:
    """They try again later."""

    class Away:
        async def receive(self, *_: object, **__: object) -> queues.Delivery | None:
            raise errors.QueueUnavailable("the queue cannot be reached")

        extend = ack = receive

    assert await home.worker(queue=Away()).process_next(asyncio.Event()) is None  # type: ignore[arg-type]


async def test_a_notification_wakes_an_idle_worker(home: house.House) -> None:
    """And a new job wakes the orchestrator, long before either would poll."""
    async with house.start_programs(home):
        await home.order("W1-I1")

        async def is_done() -> bool:
            return await home.tasks("current_stage") == [("done",)]

        await polling.wait_until(is_done)


def test_deduplication_id_has_task_stage_and_attempt() -> None:
    """The group is the volume."""
    message = base.StageMessage(7, 1, 3, "W1", "I1", 2, "key")
    assert message.deduplication_id("ocr") == "7-ocr-2"
    assert message.group_id == "3"
    assert base.StageMessage.parse(message.as_json()) == message
    assert base.StageMessage.parse({"task_id": 7}) is None
