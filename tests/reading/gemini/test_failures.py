"""Each failure of the service ends in the class, and so the category, that fits it."""

from __future__ import annotations

import socket

import httpx
import pytest

from pagewarden import errors
from pagewarden.reading.gemini import transport
from tests.support import gemini_engine as engines
from tests.support import gemini_server as served


def _silent_port() -> int:
    """Find a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("reply", "expected", "tries"),
    [
        pytest.param(served.fault(429), errors.RateLimited, 3, id="quota"),
        pytest.param(served.fault(500, "INTERNAL"), errors.EngineAway, 3, id="500"),
        pytest.param(served.fault(503, "UNAVAILABLE"), errors.EngineAway, 3, id="503"),
        pytest.param(served.Reply(502, b"<html>"), errors.EngineAway, 3, id="broken proxy"),
        pytest.param(served.Reply(500, b"[1]"), errors.EngineAway, 3, id="500 of another form"),
        pytest.param(served.Reply(500, b"\xff\xfe\xfa"), errors.EngineAway, 3, id="500 of bytes"),
        pytest.param(served.HANG_UP, errors.EngineAway, 3, id="connection cut"),
        pytest.param(served.fault(407), errors.EngineAway, 3, id="proxy wants a password"),
        pytest.param(
            served.Reply(302, headers={"Location": "/elsewhere"}),
            errors.EngineAway,
            3,
            id="redirect",
        ),
        pytest.param(
            served.Reply(200, b"no gzip", {"Content-Encoding": "gzip"}),
            errors.EngineAway,
            3,
            id="broken encoding",
        ),
        pytest.param(
            served.fault(504, "DEADLINE_EXCEEDED"), errors.ReadingTimedOut, 3, id="service slow"
        ),
        pytest.param(served.fault(401, "UNAUTHENTICATED"), errors.KeyRefused, 1, id="401"),
        pytest.param(served.fault(403, "PERMISSION_DENIED"), errors.KeyRefused, 1, id="403"),
        pytest.param(
            served.fault(400, "INVALID_ARGUMENT", "bad key", served.error_info("API_KEY_INVALID")),
            errors.KeyRefused,
            1,
            id="key of no form",
        ),
        pytest.param(
            served.fault(400, "FAILED_PRECONDITION", "enable billing"),
            errors.KeyRefused,
            1,
            id="account not set up",
        ),
        pytest.param(served.fault(404, "NOT_FOUND"), errors.EngineMissing, 1, id="no such model"),
        pytest.param(
            served.fault(400, "INVALID_ARGUMENT", "Unable to process input image."),
            errors.AnswerRefused,
            1,
            id="image refused",
        ),
        pytest.param(served.fault(413), errors.AnswerRefused, 1, id="image too large"),
        *(
            pytest.param(served.blocked_prompt(reason), errors.AnswerRefused, 1, id=reason)
            for reason in ("SAFETY", "PROHIBITED_CONTENT", "OTHER")
        ),
        *(
            pytest.param(
                served.blocked_answer(reason), errors.AnswerRefused, 1, id=f"answer {reason}"
            )
            for reason in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")
        ),
        *(
            pytest.param(
                served.said('{"lines": [', reason), errors.AnswerUnusable, 2, id=f"answer {reason}"
            )
            for reason in ("MAX_TOKENS", "MALFORMED_RESPONSE", "OTHER", "A_NEW_REASON", "")
        ),
        pytest.param(
            served.said('{"lines": []}', "MAX_TOKENS"), errors.AnswerUnusable, 2, id="not finished"
        ),
        pytest.param(served.said('{"lines": ['), errors.AnswerUnusable, 2, id="half of the JSON"),
        pytest.param(served.said('{"lines": 3}'), errors.AnswerUnusable, 2, id="another form"),
        pytest.param(
            served.said('{"lines": [{"box_2d": []}]}'), errors.AnswerUnusable, 2, id="field missing"
        ),
        pytest.param(
            served.said('{"lines": [{"text": "a", "box_2d": ["x"]}]}'),
            errors.AnswerUnusable,
            2,
            id="no number",
        ),
        pytest.param(served.said(""), errors.AnswerUnusable, 2, id="empty answer"),
        pytest.param(served.json_reply({}), errors.AnswerUnusable, 2, id="no candidate"),
        *(
            pytest.param(served.Reply(200, body), errors.AnswerUnusable, 2, id=f"body {body!r}")
            for body in (b"", b"<html>", b"3", b"[]", b"null", b'{"candidates": 5}', b"\xff\xfe")
        ),
    ],
)
def test_failure_ends_in_its_class(
    server: served.GeminiServer,
    make: engines.Make,
    reply: served.Reply,
    expected: type[errors.PagewardenError],
    tries: int,
) -> None:
    """What passes is tried again, a bounded number of times; what does not is not."""
    server.script = [reply] * tries

    with pytest.raises(errors.PagewardenError) as caught:
        engines.read(make(gemini_max_retries=2))

    assert type(caught.value) is expected
    assert len(server.requests) == tries


def test_failures_have_the_categories_of_the_design() -> None:
    """An outage is not counted, a refusal is final, a key is for the operator."""
    filed = {
        kind: (kind.category, kind.retryable, kind.outage)
        for kind in (
            errors.RateLimited,
            errors.EngineAway,
            errors.ReadingTimedOut,
            errors.KeyRefused,
            errors.EngineMissing,
            errors.AnswerRefused,
            errors.AnswerUnusable,
        )
    }
    category = errors.Category
    assert filed == {
        errors.RateLimited: (category.TRANSIENT, True, False),
        errors.EngineAway: (category.TRANSIENT, True, True),
        errors.ReadingTimedOut: (category.TRANSIENT, True, False),
        errors.KeyRefused: (category.CONFIGURATION, False, False),
        errors.EngineMissing: (category.CONFIGURATION, False, False),
        errors.AnswerRefused: (category.PERMANENT, False, False),
        errors.AnswerUnusable: (category.TRANSIENT, True, False),
    }


def test_message_quotes_the_service_and_says_what_to_do(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """The service's own words are shortened, and the key is not among them."""
    server.script = [served.fault(403, "PERMISSION_DENIED", "no rights. " + "x" * 5000)]

    with pytest.raises(errors.KeyRefused, match="PAGEWARDEN_GEMINI_API_KEY") as caught:
        engines.read(make())

    assert "no rights." in str(caught.value)
    assert len(str(caught.value)) < 500
    assert engines.KEY not in str(caught.value)


def test_redirect_is_not_followed(server: served.GeminiServer, make: engines.Make) -> None:
    """The key would travel along, to whoever is there."""
    server.script = [served.Reply(307, headers={"Location": f"{server.url}/elsewhere"})]

    with pytest.raises(errors.EngineAway, match="307"):
        engines.read(make(gemini_max_retries=0))

    assert [request.path.endswith("/elsewhere") for request in server.requests] == [False]


def test_service_that_cannot_be_reached_is_an_outage(
    make: engines.Make, clock: engines.StillClock
) -> None:
    """It is tried again with growing pauses first."""
    gemini = make(gemini_base_url=f"http://127.0.0.1:{_silent_port()}", gemini_max_retries=3)

    with pytest.raises(errors.EngineAway, match="PAGEWARDEN_GEMINI_BASE_URL"):
        engines.read(gemini)

    assert clock.waits == [
        pytest.approx(1, rel=0.26),
        pytest.approx(2, rel=0.26),
        pytest.approx(4, rel=0.26),
    ]


def test_connection_has_less_time_than_an_answer() -> None:
    """Whoever is there says so sooner, so that an outage is noticed early."""
    with transport.client() as client, pytest.raises(httpx.ConnectError) as caught:
        client.post(f"http://127.0.0.1:{_silent_port()}", timeout=120)

    timeout = caught.value.request.extensions["timeout"]
    assert (timeout["connect"], timeout["read"]) == (transport.CONNECT_SECONDS, 120)


@pytest.mark.parametrize("reply", [served.SILENCE, served.DRIP], ids=["silent", "a byte at a time"])
def test_service_that_does_not_finish_is_a_time_out(
    server: served.GeminiServer, make: engines.Make, reply: served.Reply
) -> None:
    """It was reached, so it is no outage; pieces that keep coming do not prolong the time."""
    server.script = [reply] * 2

    with pytest.raises(errors.ReadingTimedOut, match="TIMEOUT_SECONDS"):
        engines.read(make(gemini_timeout_seconds=0.15, gemini_max_retries=1))


def test_outage_that_passes_is_not_noticed(server: served.GeminiServer, make: engines.Make) -> None:
    """Tries of different fates add up to a page."""
    server.script = [
        served.fault(503),
        served.HANG_UP,
        served.fault(429, headers={"Retry-After": "2"}),
        served.extracted(served.line("a")),
        served.fault(500),
        served.boosted((1, "b")),
    ]

    assert engines.texts(engines.read(make())) == ["b"]


def test_answer_of_no_form_has_one_second_chance(
    server: served.GeminiServer, make: engines.Make
) -> None:
    """The page is read if the second answer is sound."""
    server.script = [served.said("{"), served.extracted(served.line("a")), served.boosted()]

    assert engines.texts(engines.read(make())) == ["a"]


@pytest.mark.parametrize(
    "replies",
    [
        [served.blocked_answer("RECITATION")],
        [served.blocked_prompt("OTHER")],
        [served.said('{"corrections": [', "MAX_TOKENS")] * 2,
        [served.said("no JSON")] * 2,
        [served.fault(400, "INVALID_ARGUMENT")],
    ],
)
def test_page_that_cannot_be_boosted_keeps_what_was_extracted(
    server: served.GeminiServer, make: engines.Make, replies: list[served.Reply]
) -> None:
    """A page that was read and paid for is not lost over a polish."""
    server.script = [served.extracted(served.line("read")), *replies]

    assert engines.texts(engines.read(make())) == ["read"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (served.fault(503), errors.EngineAway),
        (served.fault(429), errors.RateLimited),
        (served.fault(403), errors.KeyRefused),
        (served.fault(504), errors.ReadingTimedOut),
    ],
)
def test_service_that_fails_during_the_boost_fails_the_page(
    server: served.GeminiServer,
    make: engines.Make,
    reply: served.Reply,
    expected: type[errors.PagewardenError],
) -> None:
    """Such a page is read again; it would else stay at a lower quality than its neighbours."""
    server.script = [served.extracted(served.line("a")), reply]

    with pytest.raises(expected):
        engines.read(make(gemini_max_retries=0))
