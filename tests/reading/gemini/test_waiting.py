"""How long the engine waits, for the service and for its own limit, and when it stops."""

from __future__ import annotations

import threading
from concurrent import futures

import hypothesis
import pytest
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.reading.gemini import pace
from tests.support import gemini_engine as engines
from tests.support import gemini_server as served

PER_DAY = served.quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (served.fault(429, headers={"Retry-After": "17"}), 17),
        (served.fault(429, headers={"Retry-After": "Sat, 31 Jan 2026 06:00:09 GMT"}), 9),
        (served.fault(429, "", "", served.retry_info("23s")), 23),
        (served.fault(429, "", "", served.retry_info("4.5s")), 4.5),
        (
            served.fault(429, "", "", served.retry_info("5s"), headers={"Retry-After": "8"}),
            8,
        ),
    ],
)
def test_wait_is_the_one_the_service_asked_for(
    server: served.GeminiServer,
    make: engines.Make,
    clock: engines.StillClock,
    reply: served.Reply,
    seconds: float,
) -> None:
    """Whether it said so in the header or in the body."""
    server.script = [reply, served.extracted()]

    engines.read(make())

    assert clock.waits == [pytest.approx(seconds)]


@pytest.mark.parametrize(
    "header", ["", "soon", "nan", "-5", "1e99", "Sat, 31 Jan 2025 06:00:00 GMT", "9" * 400]
)
def test_wait_that_makes_no_sense_is_chosen_by_ourselves(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock, header: str
) -> None:
    """The backoff of any other failure."""
    server.script = [served.fault(429, headers={"Retry-After": header}), served.extracted()]

    engines.read(make())

    assert clock.waits == [pytest.approx(1, rel=0.26)]


def test_wait_that_never_ends_is_handed_on(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """After the last try the error says when to come again."""
    server.script = [served.fault(429, headers={"Retry-After": "7"})] * 3

    with pytest.raises(errors.RateLimited) as caught:
        engines.read(make(gemini_max_retries=2))

    assert caught.value.retry_after == 7
    assert clock.waits == [7, 7]


def test_wait_until_a_date_that_is_past_is_none(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """Clocks differ; nobody is told to come again yesterday."""
    header = {"Retry-After": "Sat, 31 Jan 2026 05:59:00 GMT"}
    server.script = [served.fault(429, headers=header)]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read(make(gemini_max_retries=0))

    assert caught.value.retry_after == 0


def test_wait_longer_than_the_patience_is_handed_on_at_once(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """Nobody holds a page for half an hour."""
    server.script = [served.fault(429, "", "", served.retry_info("1800s"))]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read(make(gemini_patience_seconds=60))

    assert caught.value.retry_after == 1800
    assert clock.waits == []


def test_quota_of_the_day_is_waited_for_until_the_next_day(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """The service speaks of seconds all the same."""
    server.script = [served.fault(429, "", "", PER_DAY, served.retry_info("31s"))]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read(make())

    assert caught.value.retry_after == 2 * 60 * 60


def test_patience_covers_all_of_a_page(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """However many tries are left, the page ends when its time is over."""
    server.script = [served.fault(429, headers={"Retry-After": "10"})] * 3

    with pytest.raises(errors.RateLimited):
        engines.read(make(gemini_patience_seconds=25, gemini_max_retries=100))

    assert clock.time == 1000 + 20


def test_request_has_no_more_time_than_its_page(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """The service is told the same bound."""
    server.script = [
        served.fault(429, headers={"Retry-After": "10"}),
        served.extracted(),
    ]

    engines.read(make(gemini_patience_seconds=25, gemini_timeout_seconds=20))

    told = [request.headers["X-Server-Timeout"] for request in server.requests]
    assert told == ["20", "15"]


def test_what_one_page_was_told_holds_for_the_next(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """The next request would fare no better; but somebody asks again after a minute."""
    gemini = make(gemini_max_retries=0, gemini_patience_seconds=100)
    server.script = [served.fault(429, headers={"Retry-After": "5000"}), served.extracted()]
    with pytest.raises(errors.RateLimited):
        engines.read(gemini)

    engines.read(gemini)

    assert clock.waits == [60]


def test_requests_of_a_minute_are_bounded(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """The request beyond the limit waits until the first is a minute old."""
    server.by_form = {"lines": served.extracted(served.line("a")), "corrections": served.boosted()}
    gemini = make(gemini_requests_per_minute=3)

    engines.read(gemini)
    assert clock.waits == []
    engines.read(gemini)

    assert clock.waits == [60]


def test_turn_that_comes_too_late_is_handed_on(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """The error says when there is room again, and names the setting."""
    gemini = make(gemini_requests_per_minute=1, gemini_patience_seconds=59)
    server.script = [served.extracted()]
    engines.read(gemini)

    with pytest.raises(errors.RateLimited, match="REQUESTS_PER_MINUTE") as caught:
        engines.read(gemini)

    assert caught.value.retry_after == 60
    assert clock.waits == []


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(st.integers(1, 5), st.lists(st.floats(0, 40), min_size=1, max_size=30), st.data())
def test_no_minute_has_more_requests_than_allowed(
    limit: int, pauses: list[float], data: st.DataObject
) -> None:
    """Whatever the pauses between them, and whatever the service asks for in between."""
    clock = engines.StillClock()
    limiter = pace.Limiter(limit, clock)
    starts = []
    for pause in pauses:
        clock.time += pause
        if data.draw(st.booleans()):
            limiter.hold(data.draw(st.floats(0, 90)))
        limiter.take(ends=float("inf"))
        starts.append(clock.time)

    gaps = [later - start for start, later in zip(starts, starts[limit:], strict=False)]
    assert all(gap >= pace.WINDOW_SECONDS - 1e-6 for gap in gaps)


def test_threads_share_one_engine_and_its_limit(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """Twelve pages at once are read, each with its own text and cost, none beyond the limit."""
    server.by_form = {
        "lines": served.extracted(served.line("a"), served.line("b")),
        "corrections": served.boosted((2, "c")),
    }
    gemini = make(gemini_requests_per_minute=24)

    with futures.ThreadPoolExecutor(6) as threads:
        read = list(threads.map(lambda _: engines.read(gemini), range(12)))

    assert [engines.texts(page) for page in read] == [["a", "c"]] * 12
    assert {page.usage.input_tokens for page in read} == {2 * engines.TOKENS_IN}
    assert len(server.requests) == 24


@pytest.mark.parametrize("key", [None, "", "  ", "schlüssel"])
def test_engine_without_a_usable_key_is_refused(make: engines.Make, key: str | None) -> None:
    """Before any page is touched, with the name of the setting."""
    with pytest.raises(errors.KeyRefused, match="PAGEWARDEN_GEMINI_API_KEY"):
        make(gemini_api_key=key)


def test_closed_engine_gives_pages_back(make: engines.Make) -> None:
    """An outage is not counted against the page."""
    gemini = make()
    gemini.close()

    with pytest.raises(errors.EngineAway, match="closed"):
        engines.read(gemini)


def test_engine_closed_just_before_a_request_gives_the_page_back(
    server: served.GeminiServer,
) -> None:
    """There is no moment at which closing looks like a failure of the page."""

    class DeafClock(engines.StillClock):
        def stop(self) -> None:
            pass

    gemini = engines.made(server, DeafClock())
    gemini.close()

    with pytest.raises(errors.EngineAway, match="closed"):
        engines.read(gemini)

    assert server.requests == []


def test_closing_ends_a_wait(server: served.GeminiServer) -> None:
    """A program that ends does not wait for the service's next minute."""
    asked = threading.Event()

    class Clock(pace.Clock):
        def wait(self, seconds: float) -> None:
            if seconds:
                asked.set()
            super().wait(seconds)

    server.script = [served.fault(429, headers={"Retry-After": "100"})]
    gemini = engines.made(server, Clock())

    with futures.ThreadPoolExecutor(1) as thread:
        page = thread.submit(engines.read, gemini)
        assert asked.wait(10)
        gemini.close()
        assert isinstance(page.exception(timeout=10), errors.EngineAway)


def test_each_request_waits_for_its_place_among_all_processes(
    server: served.GeminiServer, make: engines.Make, clock: engines.StillClock
) -> None:
    """Extracting and boosting are two of them."""
    server.script = [served.extracted(served.line("Dear Ada")), served.boosted()]
    asked = []

    def permit(engine: str) -> float:
        asked.append(engine)
        return 2.5 * len(asked)

    gemini = make()
    gemini.ask_first(permit)
    engines.read(gemini)

    assert asked == ["gemini", "gemini"]
    assert clock.waits == [2.5, 5.0]


def test_a_place_that_comes_too_late_is_told_with_the_wait(
    make: engines.Make, clock: engines.StillClock
) -> None:
    """The document is tried again by then; the service is not asked."""
    gemini = make()
    gemini.ask_first(lambda _: 10_000.0)

    with pytest.raises(errors.RateLimited, match="ENGINE_CALLS_PER_SECOND") as caught:
        engines.read(gemini)

    assert caught.value.retry_after == 10_000
    assert clock.waits == []
