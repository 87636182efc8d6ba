"""Volumes go through all stages, whatever happens to those who do them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import errors
from pagewarden.volumes import messages, queues, stages, turns
from pagewarden.volumes import worker as workers
from tests.support import polling
from tests.volumes import fakes, house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Outcome = turns.Outcome


@contextlib.asynccontextmanager
async def _at_work(
    home: house.House, find: Callable[[str], stages.Stage], *, heartbeat_seconds: float = 5
) -> AsyncIterator[asyncio.Event]:
    """Have a worker at work beside the test, until the event is set."""
    stop = asyncio.Event()
    working = asyncio.create_task(home.worker(find, heartbeat_seconds=heartbeat_seconds).run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await working


class _Gate:
    """A stage that waits for the test in its middle."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.works: list[stages.Work] = []

    def find(self, name: str) -> stages.Stage:
        """Find the gate before a stage that works."""
        return _Gated(self, fakes.FakeStage(name))


class _Gated:
    def __init__(self, gate: _Gate, stage: stages.Stage) -> None:
        self._gate, self._stage, self.name = gate, stage, stage.name

    async def run(self, work: stages.Work) -> stages.Done:
        self._gate.works.append(work)
        work.progress(1, 4)
        self._gate.reached.set()
        await self._gate.go_on.wait()
        return await self._stage.run(work)


async def test_a_job_goes_through_all_stages(home: house.House) -> None:
    """Every volume ends done, with artifacts of each stage and figures of the last."""
    await home.order("W1-I1", "W2-I1")
    await home.work(home.worker())
    assert await home.tasks("current_stage", "status", "attempts") == [("done", "done", 0)] * 2
    assert len(house.artifacts_of(home.output)) == 8
    query = "select total_images, processing_duration_ms >= 0 from volume_results"
    assert await home.rows(query) == [(4, True)] * 2
    assert await home.violations() == []


async def test_one_look_publishes_all_that_is_ready(home: house.House) -> None:
    """The database publishes a bounded number per call; the orchestrator calls until all are."""
    for job in range(6):
        await home.order(*(f"W{job}-I{volume}" for volume in range(200)))

    seen = await home.orchestrator.look()

    assert seen is not None
    assert seen.published == 1200


async def test_each_stage_has_workers_of_its_own(home: house.House) -> None:
    """A worker of one stage leaves the others alone."""
    await home.order("W1-I1")
    crew = [home.worker(name=name, serves=[name]) for name in stages.STAGES]
    await home.work(*crew)
    assert await home.rows("select stage = worker_id from volume_runs") == [(True,)] * 4


async def test_the_last_stage_comes_first(home: house.House) -> None:
    """Who serves all of them finishes volumes instead of beginning new ones."""
    await home.order("W1-I1", "W1-I2")
    stop, one = asyncio.Event(), home.worker()
    for _ in range(8):
        await home.orchestrator.look()
        await one.serve(stop)
    done = await home.rows("select stage from volume_runs where outcome = 'done' order by id")
    assert [stage for (stage,) in done] == [*stages.STAGES, *stages.STAGES]


async def test_whoever_is_told_to_stop_gives_its_volume_back(home: house.House) -> None:
    """Uncounted, and at once: the next worker need not wait for a lock to expire."""
    await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.look()
    gate = _Gate()
    async with _at_work(home, gate.find):
        await gate.reached.wait()
    assert await home.tasks("status", "attempts", "rescues", "token") == [("running", 0, 0, None)]
    assert house.artifacts_of(home.output) == {}
    await home.work(home.worker())
    assert await home.tasks("current_stage") == [("done",)]


async def test_a_stage_that_was_just_done_when_told_to_stop_is_done(home: house.House) -> None:
    """Nothing that is published is thrown away."""
    await home.order("W1-I1")
    await home.orchestrator.look()

    class Stubborn(fakes.FakeStage):
        async def run(self, work: stages.Work) -> stages.Done:
            reached.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return await fakes.FakeStage(self.name).run(work)

    reached = asyncio.Event()
    async with _at_work(home, Stubborn):
        await reached.wait()
    assert await home.tasks("current_stage", "status") == [("line_detection", "done")]


async def test_an_outage_is_not_the_volumes_fault(home: house.House) -> None:
    """It is given back uncounted, and nobody tries it again at once."""
    await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.look()
    one, stop = home.worker(fakes.away), asyncio.Event()
    assert await one.serve(stop) is Outcome.OUTAGE
    assert await one.serve(stop) is None
    assert await home.tasks("status", "attempts", "last_error ->> 'type'") == [
        ("running", 0, "Outage")
    ]
    assert await home.violations() == []


async def test_a_volume_that_is_out_goes_behind_all_others(home: house.House) -> None:
    """However soon its message shows again: what others need may be there."""
    await home.order("W1-I1", "W1-I2", "W1-I3")
    await home.orchestrator.look()
    one, stop = home.worker(fakes.away_for("W1-I1")), asyncio.Event()
    assert await one.serve(stop) is Outcome.OUTAGE
    await home.show_messages()
    assert [await one.serve(stop) for _ in range(3)] == [Outcome.DONE] * 2 + [Outcome.OUTAGE]
    assert await home.violations() == []


async def test_a_worker_goes_on_with_others_after_an_outage(home: house.House) -> None:
    """Without a pause; only several in a row make it wait."""
    await home.order("W1-I1", "W1-I2")
    await home.orchestrator.look()
    async with _at_work(home, fakes.away_for("W1-I1")):

        async def is_done() -> bool:
            return ("done",) in await home.tasks("status")

        await polling.until(is_done, seconds=10)


def test_pauses_of_a_worker_grow_to_a_bound() -> None:
    """None after the first outage; never so long that others stand still."""
    pauses = [workers.pause_after(outages) for outages in (1, 2, 3, 4, 5, 6, 1000)]
    assert pauses == [0, 1, 2, 5, 10, 10, 10]


@pytest.mark.parametrize(
    "error",
    [
        errors.EngineMissing("tesseract has no data for tibetan; install it"),
        errors.KeyRefused("the service wants another key"),
        errors.SettingsError("model.onnx cannot be read; give an ONNX file"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_worker_that_is_set_up_wrongly_uses_up_no_attempts(
    home: house.House, error: Exception
) -> None:
    """Its volumes are left to others, and the reason is seen."""
    job = await home.order("W1-I1", max_attempts=1)
    await home.orchestrator.look()
    stop = asyncio.Event()
    wrong = home.worker(fakes.failing(error, times=1, at="line_detection"))
    assert await wrong.serve(stop) is Outcome.OUTAGE
    board = await home.service.volume_board(job_id=job)
    assert board["outage"]["message"] == str(error)
    await home.show_messages()
    assert await home.worker().serve(stop) is Outcome.DONE
    assert await home.tasks("attempts") == [(0,)]


async def test_a_config_that_makes_no_sense_fails_for_good(home: house.House) -> None:
    """It is the job's, so it is the same for every worker."""
    await home.order("W1-I1", config={"k_factor": 99})
    await home.orchestrator.look()
    assert await home.worker().serve(asyncio.Event()) is Outcome.FAILED
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
async def test_what_a_stage_raises_is_written_down(
    home: house.House, error: Exception, expected: tuple[Any, ...]
) -> None:
    """With its category, on which depends whether it is tried again."""
    await home.order("W1-I1")
    await home.work(home.worker(fakes.failing(error, times=1)))
    shown = ("status", "attempts", "last_error ->> 'category'", "attempts < max_attempts")
    (found,) = await home.tasks(*shown)
    assert found == (*expected, expected[2] != "permanent")


async def test_a_failed_stage_is_tried_again_and_the_others_are_not(home: house.House) -> None:
    """Once its pause is over, which the orchestrator waits for."""
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


async def test_a_stage_that_cannot_be_loaded_is_left_to_other_workers(home: house.House) -> None:
    """It is not the end of the worker, and no failure of the volume."""
    await home.order("W1-I1")
    await home.orchestrator.look()

    def find(name: str) -> stages.Stage:
        raise ModuleNotFoundError(f"No module named {name!r}")

    assert await home.worker(find).serve(asyncio.Event()) is Outcome.OUTAGE
    ((message,),) = await home.tasks("last_error ->> 'message'")
    assert message.startswith("the stage line_detection cannot be loaded: No module named")


async def test_progress_is_seen_while_the_stage_is_done(home: house.House) -> None:
    """The heartbeat tells it, and keeps the lock."""
    await home.order("W1-I1")
    await home.orchestrator.look()
    gate = _Gate()
    async with _at_work(home, gate.find, heartbeat_seconds=0.05):

        async def is_told() -> bool:
            told = await home.tasks("pages_done", "pages_total", "locked_at > started_at")
            return told == [(1, 4, True)]

        await polling.until(is_told)


async def test_whoever_lost_its_volume_publishes_nothing(home: house.House) -> None:
    """Asked right before publishing, the database says so; the new owner's artifacts stay."""
    await home.order("W1-I1")
    await home.orchestrator.look()
    gate = _Gate()
    stop = asyncio.Event()
    late = asyncio.create_task(home.worker(gate.find).serve(stop))
    await gate.reached.wait()
    await home.abandon()
    assert await home.worker(name="owner").serve(stop) is Outcome.DONE
    made = house.artifacts_of(home.output)
    written = house.owners_of(home.output)
    gate.go_on.set()
    assert await late is Outcome.LOST
    assert house.artifacts_of(home.output) == made
    assert house.owners_of(home.output) == written
    tokens = await home.rows("select token::text from volume_runs where outcome = 'done'")
    assert [{token} for (token,) in tokens] == list(written.values())


async def test_a_heartbeat_that_finds_the_volume_gone_ends_the_stage(home: house.House) -> None:
    """However long that would still take."""
    job = await home.order("W1-I1")
    await home.orchestrator.look()
    gate = _Gate()
    one = home.worker(gate.find, heartbeat_seconds=0.05)
    turn = asyncio.create_task(one.serve(asyncio.Event()))
    await gate.reached.wait()
    await home.service.cancel_volume_job(job_id=job)
    assert await turn is Outcome.LOST


async def test_messages_that_come_twice_or_late_are_removed_without_effect(
    home: house.House,
) -> None:
    """Each is a copy of one that was there, in some queue."""
    await home.order("W1-I1")
    await home.work(home.worker())
    copies = await home.rows("select message from pgmq.a_ocr_line_detection")
    for stage in stages.STAGES:
        for (message,) in copies * 2:
            await home.send(stage, message)
    await home.send("ocr", {"nobody": "knows"})
    ends = await home.worker().drain(asyncio.Event())
    assert ends == {Outcome.STALE: 9}
    assert await home.tasks("current_stage", "publications") == [("done", 4)]
    assert await home.rows("select count(*) from pgmq.q_ocr_ocr") == [(0,)]


async def test_a_copy_of_a_message_in_hand_is_left_until_that_ends(home: house.House) -> None:
    """It may be all that is left when the owner dies."""
    await home.order("W1-I1")
    await home.orchestrator.look()
    gate = _Gate()
    async with _at_work(home, gate.find):
        await gate.reached.wait()
        ((message,),) = await home.rows("select message from pgmq.q_ocr_line_detection")
        await home.send("line_detection", message)
        assert await home.worker().serve(asyncio.Event()) is Outcome.HELD
        gate.go_on.set()

        async def is_done() -> bool:
            return await home.tasks("status") == [("done",)]

        await polling.until(is_done)
    await home.conn.execute("update pgmq.q_ocr_line_detection set vt = now()")
    assert await home.worker().serve(asyncio.Event()) is Outcome.STALE


async def test_a_rerun_does_not_skip_what_is_there(home: house.House) -> None:
    """The stage is told to do it again; those after it find out themselves."""
    job = await home.order("W1-I1")
    await home.work(home.worker())
    await home.service.rerun_volumes(job_id=job, stage="ocr")
    gate = _Gate()
    gate.go_on.set()
    await home.work(home.worker(gate.find))
    assert [work.force for work in gate.works] == [True, False]
    assert gate.works[1].seconds_before > 0


async def test_workers_survive_queues_and_databases_that_are_away(home: house.House) -> None:
    """They look again later."""

    class Away:
        async def receive(self, *_: object, **__: object) -> queues.Delivery | None:
            raise errors.QueueAway("the queue cannot be reached")

        extend = ack = receive

    assert await home.worker(queue=Away()).serve(asyncio.Event()) is None  # type: ignore[arg-type]


async def test_an_idle_worker_is_woken_by_a_message(home: house.House) -> None:
    """And the orchestrator by an order, long before either would look again."""
    async with house.listening(home) as awake:
        await awake.order("W1-I1")

        async def is_done() -> bool:
            return await home.tasks("current_stage") == [("done",)]

        await polling.until(is_done)


def test_the_deduplication_id_is_the_agreed_one() -> None:
    """Task, stage and attempt; the group is the volume."""
    message = messages.Message(7, 1, 3, "W1", "I1", 2, "key")
    assert message.deduplication_id("ocr") == "7-ocr-2"
    assert message.group == "3"
    assert messages.Message.parse(message.as_json()) == message
    assert messages.Message.parse({"task_id": 7}) is None
