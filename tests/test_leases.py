"""Work under a lease, in every order of events, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors, leases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

HEARTBEAT, CANCEL, LIMIT = 5.0, 12.0, 20.0


class Clock:
    """Sleeps until the test moves the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleeping: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the time so far."""
        woken = asyncio.Event()
        self._sleeping.append((self.now + seconds, woken))
        await woken.wait()

    async def move(self, seconds: float) -> None:
        """Move the time, step by step, and let everything run that is due."""
        end = self.now + seconds
        await settle()
        while due := min((at for at, woken in self._sleeping if not woken.is_set()), default=None):
            if due > end:
                break
            self.now = due
            for at, woken in self._sleeping:
                if at <= due:
                    woken.set()
            await settle()
        self.now = end


async def settle() -> None:
    """Let all tasks run until they wait."""
    for _ in range(30):
        await asyncio.sleep(0)


@dataclass
class FakeLease:
    """A lease that writes down its calls; `errors` are raised by the call of their name."""

    calls: list[str] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    async def renew(self) -> None:
        """Write down a heartbeat."""
        await self._call("renew")

    async def fail(self, failure: leases.Failure) -> str:
        """Write down a failed attempt."""
        await self._call("fail", f"{failure.category} {failure.message}")
        return "failed"

    async def release(self, reason: str, *, outage: bool) -> str:
        """Write down that the work was given back."""
        await self._call("release", f"{reason}{' (outage)' * outage}")
        return "given back"

    async def complete(self, result: object) -> str:
        """Write down a result."""
        await self._call("complete", str(result))
        return "completed"

    def is_outage(self, failure: leases.Failure) -> bool:
        """Decide by the error."""
        return failure.is_outage

    def log_loss(self) -> None:
        """Write down the loss."""
        self.calls.append("loss logged")

    lost_outcome = "lost"

    @property
    def ends(self) -> list[str]:
        """Return the calls but heartbeats."""
        return [call for call in self.calls if call != "renew"]

    async def _call(self, name: str, detail: str = "") -> None:
        self.calls.append(f"{name} {detail}".strip())
        if name in self.blocked:
            await asyncio.Event().wait()
        if name in self.errors:
            raise self.errors[name]


class Case:
    """Work of the test's own under a lease."""

    def __init__(self) -> None:
        self.clock, self.lease, self.stop = Clock(), FakeLease(), asyncio.Event()
        self.result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.when_cancelled: Callable[[], Awaitable[str]] | None = None
        self.was_cancelled = False
        self.running: asyncio.Task[str]

    async def start(self) -> None:
        """Start, and wait until the work waits for its result."""
        runner = leases.LeaseRunner(
            self.lease, self.work, self.lease.complete, HEARTBEAT, CANCEL, LIMIT, self.clock.sleep
        )
        self.running = asyncio.create_task(runner.run(self.stop))
        await settle()

    async def work(self) -> str:
        """Wait for the result that the test sets."""
        try:
            return await asyncio.shield(self.result)
        except asyncio.CancelledError:
            self.was_cancelled = True
            if self.when_cancelled is None:
                raise
            return await self.when_cancelled()

    async def end(self) -> str:
        """Return the outcome, which must be there without more time."""
        await settle()
        assert self.running.done()
        return self.running.result()


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    """Start the work."""
    others = asyncio.all_tasks()  # of other tests, in the loop that all share
    one = Case()
    await one.start()
    yield one
    one.running.cancel()
    await asyncio.gather(one.running, return_exceptions=True)
    # Nothing of it goes on: neither the work nor heartbeats.
    before = list(one.lease.calls)
    await one.clock.move(100)
    assert one.lease.calls == before
    assert asyncio.all_tasks() - others <= {asyncio.current_task()}


async def test_work_that_ends_is_completed_with_its_result(case: Case) -> None:
    """After a heartbeat for each interval."""
    await case.clock.move(12)
    case.result.set_result("text")
    assert await case.end() == "completed"
    assert case.lease.calls == ["renew", "renew", "complete text"]


@pytest.mark.parametrize(
    ("error", "outcome", "call"),
    [
        (errors.DamagedFile("broken"), "failed", "fail permanent broken"),
        (ValueError("bug"), "failed", "fail unknown bug"),
        (errors.InvalidArgument("text too long"), "failed", "fail permanent text too long"),
        (errors.EngineUnavailable("away"), "given back", "release away (outage)"),
        (errors.LockLost("another has it"), "lost", "loss logged"),
    ],
    ids=["ours", "unexpected", "database", "outage", "lost"],
)
@pytest.mark.parametrize("step", ["work", "complete"])
async def test_an_error_is_stored_or_gives_the_work_back(
    case: Case, error: Exception, outcome: str, call: str, step: str
) -> None:
    """Whether the work raises it, or its completion."""
    if step == "work":
        case.result.set_exception(error)
    else:
        case.lease.errors["complete"] = error
        case.result.set_result("text")
    assert await case.end() == outcome
    assert case.lease.ends[-1] == call
    assert len(case.lease.ends) == (1 if step == "work" else 2)


async def test_a_lost_lease_cancels_the_work_and_reports_nothing(case: Case) -> None:
    """The new holder reports."""
    case.lease.errors["renew"] = errors.LockLost("swept")
    await case.clock.move(HEARTBEAT)
    assert await case.end() == "lost"
    assert case.was_cancelled
    assert case.lease.ends == ["loss logged"]


async def test_a_heartbeat_that_the_database_refuses_is_an_error(case: Case) -> None:
    """A worker without rights ends, and does not look like one that lost its lock."""
    case.lease.errors["renew"] = errors.Forbidden("no rights")
    await case.clock.move(HEARTBEAT)
    with pytest.raises(errors.Forbidden):
        await case.end()
    assert case.was_cancelled
    assert case.lease.ends == []


@pytest.mark.parametrize("call", ["complete", "fail", "release"])
async def test_a_call_that_finds_the_lease_gone_means_that_it_is_lost(
    case: Case, call: str
) -> None:
    """The sweep was quicker than the heartbeat."""
    case.lease.errors[call] = errors.LockLost("swept")
    if call == "complete":
        case.result.set_result("text")
    elif call == "fail":
        case.result.set_exception(ValueError("bug"))
    else:
        case.stop.set()
    assert await case.end() == "lost"
    assert case.lease.ends[-1] == "loss logged"


@pytest.mark.parametrize("call", ["fail", "release"])
async def test_an_error_of_the_database_is_raised(case: Case, call: str) -> None:
    """There is no other place to store it."""
    case.lease.errors[call] = errors.Forbidden("no rights")
    if call == "fail":
        case.result.set_exception(ValueError("bug"))
    else:
        case.stop.set()
    with pytest.raises(errors.Forbidden):
        await case.end()


async def test_a_stop_cancels_the_work_and_gives_it_back(case: Case) -> None:
    """In this order, so that the work changes nothing that another worker holds already."""

    async def clean_up() -> str:
        case.lease.calls.append("cleaned up")
        raise ValueError("the work does not like to be cancelled")

    case.when_cancelled = clean_up
    case.stop.set()
    assert await case.end() == "given back"
    assert case.lease.calls == ["cleaned up", "release the worker is stopping"]


async def test_work_that_ends_despite_a_stop_is_completed(case: Case) -> None:
    """What it published is not discarded."""
    case.when_cancelled = lambda: asyncio.sleep(0, "late")
    case.stop.set()
    assert await case.end() == "completed"
    assert case.lease.calls == ["complete late"]


async def test_heartbeats_go_on_while_cancelled_work_cleans_up(case: Case) -> None:
    """Until the limit; then the work is given back although it goes on."""
    cleaned: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    case.when_cancelled = lambda: cleaned
    case.stop.set()
    await case.clock.move(CANCEL - 1)
    assert case.lease.calls == ["renew"] * 2
    await case.clock.move(1)
    assert case.lease.ends == ["release the worker is stopping"]
    # The runner waits for the work nevertheless, which uses its resources.
    cleaned.cancel()
    assert await case.end() == "given back"


@pytest.mark.parametrize("call", ["complete", "fail", "release"])
async def test_a_stop_waits_for_the_database_only_so_long(case: Case, call: str) -> None:
    """If it stays away the lease expires."""
    case.lease.blocked.add(call)
    if call == "complete":
        case.result.set_result("text")
    elif call == "fail":
        case.result.set_exception(ValueError("bug"))
    await case.clock.move(100 if call != "release" else 0)
    assert not case.running.done()
    case.stop.set()
    await case.clock.move(LIMIT - 1)
    assert not case.running.done()
    await case.clock.move(1)
    assert await case.end() == "lost"
    assert "loss logged" not in case.lease.calls


async def test_heartbeats_go_on_while_the_work_is_completed(case: Case) -> None:
    """Completing may take longer than a lease; a heartbeat that comes too late is harmless."""
    case.lease.blocked.add("complete")
    case.result.set_result("text")
    await case.clock.move(3 * HEARTBEAT)
    assert case.lease.calls == ["complete text", *["renew"] * 3]
    case.lease.errors["renew"] = errors.LockLost("completed already")
    await case.clock.move(HEARTBEAT)
    assert not case.running.done()


async def test_work_that_a_library_cancels_has_failed(case: Case) -> None:
    """It neither ends the worker nor looks like a stop, which would repeat it for ever."""
    case.result.cancel()
    assert await case.end() == "failed"
    assert case.lease.ends == ["fail unknown the work was cancelled"]


async def test_a_runner_that_is_cancelled_leaves_nothing_behind(case: Case) -> None:
    """The lease expires."""
    case.running.cancel()
    await settle()
    assert case.running.cancelled()
    assert case.was_cancelled
    assert case.lease.calls == []


def test_a_requested_delay_is_rounded_up_within_bounds() -> None:
    """Only of a rate limit, and never negative."""
    limited = [errors.RateLimited("slow", retry_after=seconds) for seconds in (0.2, -5, 9e9, None)]
    assert [leases.Failure(error).retry_after(100) for error in limited] == [1, 0, 100, None]
    assert leases.Failure(ValueError()).retry_after(100) is None


EVENTS = ("result", "error", "outage", "stop", "swept", "time", "cancelled")


@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=6))
def test_in_every_order_of_events_the_work_ends_once(events: Sequence[str]) -> None:
    """At most one of complete, fail and release takes effect, and none after a lost lease."""
    asyncio.run(_play(events))


async def _play(events: Sequence[str]) -> None:
    case = Case()
    await case.start()
    for event in events:
        if event == "time":
            await case.clock.move(HEARTBEAT)
        else:
            _apply(case, event)
    case.stop.set()
    await case.clock.move(2 * LIMIT)
    (ended,) = await asyncio.gather(case.running, return_exceptions=True)
    reported = [call.split()[0] for call in case.lease.ends if call != "loss logged"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    if isinstance(ended, BaseException):
        assert isinstance(ended, asyncio.CancelledError)
        assert "cancelled" in events
        return
    expected = {"completed": ["complete"], "failed": ["fail"], "given back": ["release"]}
    assert reported == expected.get(ended, reported)
    assert len(reported) <= 1
    assert ended != "lost" or "swept" in events


def _apply(case: Case, event: str) -> None:
    """Let something happen, without giving any task its turn."""
    if event == "stop":
        case.stop.set()
    elif event == "cancelled":
        case.running.cancel()
    elif event == "swept":
        gone = errors.LockLost("swept")
        case.lease.errors = dict.fromkeys(("renew", "complete", "fail", "release"), gone)
    elif not case.result.done():
        if event == "result":
            case.result.set_result("text")
        else:
            error = errors.EngineUnavailable("away") if event == "outage" else ValueError("bug")
            case.result.set_exception(error)
