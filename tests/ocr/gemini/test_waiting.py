"""Waits, rate limits and timeouts of the engine."""

from __future__ import annotations

import threading
from concurrent import futures

import hypothesis
import pytest
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.ocr.engines.gemini import client
from tests.support import gemini_engine as engines
from tests.support import gemini_server

PER_DAY = gemini_server.quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (gemini_server.error_reply(429, headers={"Retry-After": "17"}), 17),
        (
            gemini_server.error_reply(
                429, headers={"Retry-After": "Sat, 31 Jan 2026 06:00:09 GMT"}
            ),
            9,
        ),
        (gemini_server.error_reply(429, "", "", gemini_server.retry_info("23s")), 23),
        (gemini_server.error_reply(429, "", "", gemini_server.retry_info("4.5s")), 4.5),
        (
            gemini_server.error_reply(
                429, "", "", gemini_server.retry_info("5s"), headers={"Retry-After": "8"}
            ),
            8,
        ),
    ],
)
def test_wait_is_the_one_that_the_service_requests(
    server: gemini_server.GeminiServer,
    make: engines.Make,
    clock: engines.FakeClock,
    reply: gemini_server.Reply,
    seconds: float,
) -> None:
    """In the header or in the body."""
    server.script = [reply, gemini_server.extraction_reply()]

    engines.read_page(make())

    assert clock.waits == [pytest.approx(seconds)]


@pytest.mark.parametrize(
    "header", ["", "soon", "nan", "-5", "1e99", "Sat, 31 Jan 2025 06:00:00 GMT", "9" * 400]
)
def test_invalid_wait_is_replaced_by_backoff(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock, header: str
) -> None:
    """The backoff of any other failure."""
    server.script = [
        gemini_server.error_reply(429, headers={"Retry-After": header}),
        gemini_server.extraction_reply(),
    ]

    engines.read_page(make())

    assert clock.waits == [pytest.approx(1, rel=0.26)]


def test_error_of_the_last_attempt_has_the_wait(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """`retry_after` is set after the last attempt."""
    server.script = [gemini_server.error_reply(429, headers={"Retry-After": "7"})] * 3

    with pytest.raises(errors.RateLimited) as caught:
        engines.read_page(make(gemini_max_retries=2))

    assert caught.value.retry_after == 7
    assert clock.waits == [7, 7]


def test_past_retry_date_means_no_wait(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """Clocks differ; `retry_after` is never negative."""
    header = {"Retry-After": "Sat, 31 Jan 2026 05:59:00 GMT"}
    server.script = [gemini_server.error_reply(429, headers=header)]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read_page(make(gemini_max_retries=0))

    assert caught.value.retry_after == 0


def test_wait_beyond_the_page_timeout_fails_immediately(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """A page is not held for half an hour."""
    server.script = [gemini_server.error_reply(429, "", "", gemini_server.retry_info("1800s"))]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read_page(make(gemini_patience_seconds=60))

    assert caught.value.retry_after == 1800
    assert clock.waits == []


def test_daily_quota_is_retried_the_next_day(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """Although the service names seconds."""
    server.script = [
        gemini_server.error_reply(429, "", "", PER_DAY, gemini_server.retry_info("31s"))
    ]

    with pytest.raises(errors.RateLimited) as caught:
        engines.read_page(make())

    assert caught.value.retry_after == 2 * 60 * 60


def test_page_timeout_includes_all_attempts(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """The page fails at its timeout even if attempts are left."""
    server.script = [gemini_server.error_reply(429, headers={"Retry-After": "10"})] * 3

    with pytest.raises(errors.RateLimited):
        engines.read_page(make(gemini_patience_seconds=25, gemini_max_retries=100))

    assert clock.time == 1000 + 20


def test_request_timeout_is_limited_by_the_page_timeout(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """The header has the same timeout."""
    server.script = [
        gemini_server.error_reply(429, headers={"Retry-After": "10"}),
        gemini_server.extraction_reply(),
    ]

    engines.read_page(make(gemini_patience_seconds=25, gemini_timeout_seconds=20))

    told = [request.headers["X-Server-Timeout"] for request in server.requests]
    assert told == ["20", "15"]


def test_rate_limit_of_one_page_delays_the_next(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """It would be rejected too; after a minute it is tried nevertheless."""
    gemini = make(gemini_max_retries=0, gemini_patience_seconds=100)
    server.script = [
        gemini_server.error_reply(429, headers={"Retry-After": "5000"}),
        gemini_server.extraction_reply(),
    ]
    with pytest.raises(errors.RateLimited):
        engines.read_page(gemini)

    engines.read_page(gemini)

    assert clock.waits == [60]


def test_requests_per_minute_are_limited(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """The request beyond the limit waits until the first is a minute old."""
    server.by_schema = {
        "lines": gemini_server.extraction_reply(gemini_server.line("a")),
        "corrections": gemini_server.boost_reply(),
    }
    gemini = make(gemini_requests_per_minute=3)

    engines.read_page(gemini)
    assert clock.waits == []
    engines.read_page(gemini)

    assert clock.waits == [60]


def test_wait_of_the_rate_limiter_beyond_the_deadline_fails(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """The error has `retry_after` and names the setting."""
    gemini = make(gemini_requests_per_minute=1, gemini_patience_seconds=59)
    server.script = [gemini_server.extraction_reply()]
    engines.read_page(gemini)

    with pytest.raises(errors.RateLimited, match="REQUESTS_PER_MINUTE") as caught:
        engines.read_page(gemini)

    assert caught.value.retry_after == 60
    assert clock.waits == []


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(st.integers(1, 5), st.lists(st.floats(0, 40), min_size=1, max_size=30), st.data())
def test_no_minute_has_more_requests_than_allowed(
    limit: int, pauses: list[float], data: st.DataObject
) -> None:
    """For any pauses and any waits that the service requests."""
    clock = engines.FakeClock()
    limiter = client.RateLimiter(limit, clock)
    starts = []
    for pause in pauses:
        clock.time += pause
        if data.draw(st.booleans()):
            limiter.delay_requests(data.draw(st.floats(0, 90)))
        limiter.acquire(deadline=float("inf"))
        starts.append(clock.time)

    gaps = [later - start for start, later in zip(starts, starts[limit:], strict=False)]
    assert all(gap >= client.WINDOW_SECONDS - 1e-6 for gap in gaps)


def test_threads_share_one_engine_and_its_limit(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """Twelve concurrent pages each have their own text and cost, within the limit."""
    server.by_schema = {
        "lines": gemini_server.extraction_reply(gemini_server.line("a"), gemini_server.line("b")),
        "corrections": gemini_server.boost_reply((2, "c")),
    }
    gemini = make(gemini_requests_per_minute=24)

    with futures.ThreadPoolExecutor(6) as threads:
        read = list(threads.map(lambda _: engines.read_page(gemini), range(12)))

    assert [engines.list_texts(page) for page in read] == [["a", "c"]] * 12
    assert {page.usage.input_tokens for page in read} == {2 * engines.TOKENS_IN}
    assert len(server.requests) == 24


@pytest.mark.parametrize("key", [None, "", "  ", "schlüssel"])
def test_engine_without_a_usable_key_is_refused(make: engines.Make, key: str | None) -> None:
    """In the constructor, with the name of the setting."""
    with pytest.raises(errors.ApiKeyRejected, match="PAGEWARDEN_GEMINI_API_KEY"):
        make(gemini_api_key=key)


def test_closed_engine_releases_pages(make: engines.Make) -> None:
    """An outage is not counted against the page."""
    gemini = make()
    gemini.close()

    with pytest.raises(errors.EngineUnavailable, match="closed"):
        engines.read_page(gemini)


def test_engine_closed_before_a_request_releases_the_page(
    server: gemini_server.GeminiServer,
) -> None:
    """Closing never looks like a failure of the page."""

    class DeafClock(engines.FakeClock):
        def stop(self) -> None:
            pass

    gemini = engines.make_engine(server, DeafClock())
    gemini.close()

    with pytest.raises(errors.EngineUnavailable, match="closed"):
        engines.read_page(gemini)

    assert server.requests == []


def test_closing_ends_a_wait(server: gemini_server.GeminiServer) -> None:
    """A program that ends does not wait for the service."""
    asked = threading.Event()

    class Clock(client.Clock):
        def wait(self, seconds: float) -> None:
            if seconds:
                asked.set()
            super().wait(seconds)

    server.script = [gemini_server.error_reply(429, headers={"Retry-After": "100"})]
    gemini = engines.make_engine(server, Clock())

    with futures.ThreadPoolExecutor(1) as thread:
        page = thread.submit(engines.read_page, gemini)
        assert asked.wait(10)
        gemini.close()
        assert isinstance(page.exception(timeout=10), errors.EngineUnavailable)


def test_each_request_waits_for_the_shared_rate_limit(
    server: gemini_server.GeminiServer, make: engines.Make, clock: engines.FakeClock
) -> None:
    """Extracting and boosting are two of them."""
    server.script = [
        gemini_server.extraction_reply(gemini_server.line("Dear Ada")),
        gemini_server.boost_reply(),
    ]
    asked = []

    def permit(engine: str) -> float:
        asked.append(engine)
        return 2.5 * len(asked)

    gemini = make()
    gemini.set_permit(permit)
    engines.read_page(gemini)

    assert asked == ["gemini", "gemini"]
    assert clock.waits == [2.5, 5.0]


def test_wait_of_the_shared_rate_limit_beyond_the_deadline_fails(
    make: engines.Make, clock: engines.FakeClock
) -> None:
    """No request is sent; the document is retried later."""
    gemini = make()
    gemini.set_permit(lambda _: 10_000.0)

    with pytest.raises(errors.RateLimited, match="ENGINE_CALLS_PER_SECOND") as caught:
        engines.read_page(gemini)

    assert caught.value.retry_after == 10_000
    assert clock.waits == []
