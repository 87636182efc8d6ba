"""Failures of the service and the errors they are translated to."""

from __future__ import annotations

import socket

import httpx
import pytest

from pagewarden import errors
from pagewarden.ocr.engines.gemini import client as gemini_client
from tests.support import gemini_engine as engines
from tests.support import gemini_server


def _silent_port() -> int:
    """Find an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("reply", "expected", "tries"),
    [
        pytest.param(gemini_server.error_reply(429), errors.RateLimited, 3, id="quota"),
        pytest.param(
            gemini_server.error_reply(500, "INTERNAL"), errors.EngineUnavailable, 3, id="500"
        ),
        pytest.param(
            gemini_server.error_reply(503, "UNAVAILABLE"), errors.EngineUnavailable, 3, id="503"
        ),
        pytest.param(
            gemini_server.Reply(502, b"<html>"), errors.EngineUnavailable, 3, id="broken proxy"
        ),
        pytest.param(
            gemini_server.Reply(500, b"[1]"), errors.EngineUnavailable, 3, id="500 of another form"
        ),
        pytest.param(
            gemini_server.Reply(500, b"\xff\xfe\xfa"),
            errors.EngineUnavailable,
            3,
            id="500 of bytes",
        ),
        pytest.param(gemini_server.HANG_UP, errors.EngineUnavailable, 3, id="connection cut"),
        pytest.param(
            gemini_server.error_reply(407), errors.EngineUnavailable, 3, id="proxy wants a password"
        ),
        pytest.param(
            gemini_server.Reply(302, headers={"Location": "/elsewhere"}),
            errors.EngineUnavailable,
            3,
            id="redirect",
        ),
        pytest.param(
            gemini_server.Reply(200, b"no gzip", {"Content-Encoding": "gzip"}),
            errors.EngineUnavailable,
            3,
            id="broken encoding",
        ),
        pytest.param(
            gemini_server.error_reply(504, "DEADLINE_EXCEEDED"),
            errors.ReadingTimedOut,
            3,
            id="service slow",
        ),
        pytest.param(
            gemini_server.error_reply(401, "UNAUTHENTICATED"), errors.ApiKeyRejected, 1, id="401"
        ),
        pytest.param(
            gemini_server.error_reply(403, "PERMISSION_DENIED"), errors.ApiKeyRejected, 1, id="403"
        ),
        pytest.param(
            gemini_server.error_reply(
                400, "INVALID_ARGUMENT", "bad key", gemini_server.error_info("API_KEY_INVALID")
            ),
            errors.ApiKeyRejected,
            1,
            id="key of no form",
        ),
        pytest.param(
            gemini_server.error_reply(400, "FAILED_PRECONDITION", "enable billing"),
            errors.ApiKeyRejected,
            1,
            id="account not set up",
        ),
        pytest.param(
            gemini_server.error_reply(404, "NOT_FOUND"),
            errors.EngineNotInstalled,
            1,
            id="no such model",
        ),
        pytest.param(
            gemini_server.error_reply(400, "INVALID_ARGUMENT", "Unable to process input image."),
            errors.PageRejected,
            1,
            id="image refused",
        ),
        pytest.param(gemini_server.error_reply(413), errors.PageRejected, 1, id="image too large"),
        *(
            pytest.param(
                gemini_server.blocked_prompt_reply(reason), errors.PageRejected, 1, id=reason
            )
            for reason in ("SAFETY", "PROHIBITED_CONTENT", "OTHER")
        ),
        *(
            pytest.param(
                gemini_server.blocked_answer_reply(reason),
                errors.PageRejected,
                1,
                id=f"answer {reason}",
            )
            for reason in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")
        ),
        *(
            pytest.param(
                gemini_server.text_reply('{"lines": [', reason),
                errors.InvalidEngineResponse,
                2,
                id=f"answer {reason}",
            )
            for reason in ("MAX_TOKENS", "MALFORMED_RESPONSE", "OTHER", "A_NEW_REASON", "")
        ),
        pytest.param(
            gemini_server.text_reply('{"lines": []}', "MAX_TOKENS"),
            errors.InvalidEngineResponse,
            2,
            id="not finished",
        ),
        pytest.param(
            gemini_server.text_reply('{"lines": ['),
            errors.InvalidEngineResponse,
            2,
            id="half of the JSON",
        ),
        pytest.param(
            gemini_server.text_reply('{"lines": 3}'),
            errors.InvalidEngineResponse,
            2,
            id="another form",
        ),
        pytest.param(
            gemini_server.text_reply('{"lines": [{"box_2d": []}]}'),
            errors.InvalidEngineResponse,
            2,
            id="field missing",
        ),
        pytest.param(
            gemini_server.text_reply('{"lines": [{"text": "a", "box_2d": ["x"]}]}'),
            errors.InvalidEngineResponse,
            2,
            id="no number",
        ),
        pytest.param(
            gemini_server.text_reply(""), errors.InvalidEngineResponse, 2, id="empty answer"
        ),
        pytest.param(
            gemini_server.json_reply({}), errors.InvalidEngineResponse, 2, id="no candidate"
        ),
        *(
            pytest.param(
                gemini_server.Reply(200, body), errors.InvalidEngineResponse, 2, id=f"body {body!r}"
            )
            for body in (b"", b"<html>", b"3", b"[]", b"null", b'{"candidates": 5}', b"\xff\xfe")
        ),
    ],
)
def test_failure_is_translated_to_its_class(
    server: gemini_server.GeminiServer,
    make: engines.Make,
    reply: gemini_server.Reply,
    expected: type[errors.PagewardenError],
    tries: int,
) -> None:
    """Transient failures are retried a limited number of times; others are not."""
    server.script = [reply] * tries

    with pytest.raises(errors.PagewardenError) as caught:
        engines.read_page(make(gemini_max_retries=2))

    assert type(caught.value) is expected
    assert len(server.requests) == tries


def test_failures_have_the_categories_of_the_design() -> None:
    """An outage is transient, a refusal permanent, and a bad key a configuration error."""
    filed = {
        kind: (kind.category, kind.retryable, kind.outage)
        for kind in (
            errors.RateLimited,
            errors.EngineUnavailable,
            errors.ReadingTimedOut,
            errors.ApiKeyRejected,
            errors.EngineNotInstalled,
            errors.PageRejected,
            errors.InvalidEngineResponse,
        )
    }
    category = errors.Category
    assert filed == {
        errors.RateLimited: (category.TRANSIENT, True, False),
        errors.EngineUnavailable: (category.TRANSIENT, True, True),
        errors.ReadingTimedOut: (category.TRANSIENT, True, False),
        errors.ApiKeyRejected: (category.CONFIGURATION, False, False),
        errors.EngineNotInstalled: (category.CONFIGURATION, False, False),
        errors.PageRejected: (category.PERMANENT, False, False),
        errors.InvalidEngineResponse: (category.TRANSIENT, True, False),
    }


def test_message_quotes_the_service_and_says_what_to_do(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """The quoted message is shortened and does not contain the key."""
    server.script = [
        gemini_server.error_reply(403, "PERMISSION_DENIED", "no rights. " + "x" * 5000)
    ]

    with pytest.raises(errors.ApiKeyRejected, match="PAGEWARDEN_GEMINI_API_KEY") as caught:
        engines.read_page(make())

    assert "no rights." in str(caught.value)
    assert len(str(caught.value)) < 500
    assert engines.KEY not in str(caught.value)


def test_redirect_is_not_followed(server: gemini_server.GeminiServer, make: engines.Make) -> None:
    """Otherwise the key would be sent to another server."""
    server.script = [gemini_server.Reply(307, headers={"Location": f"{server.url}/elsewhere"})]

    with pytest.raises(errors.EngineUnavailable, match="307"):
        engines.read_page(make(gemini_max_retries=0))

    assert [request.path.endswith("/elsewhere") for request in server.requests] == [False]


def test_unreachable_service_is_an_outage(make: engines.Make, clock: engines.FakeClock) -> None:
    """It is retried with growing pauses first."""
    gemini = make(gemini_base_url=f"http://127.0.0.1:{_silent_port()}", gemini_max_retries=3)

    with pytest.raises(errors.EngineUnavailable, match="PAGEWARDEN_GEMINI_BASE_URL"):
        engines.read_page(gemini)

    assert clock.waits == [
        pytest.approx(1, rel=0.26),
        pytest.approx(2, rel=0.26),
        pytest.approx(4, rel=0.26),
    ]


def test_connect_timeout_is_shorter_than_the_response_timeout() -> None:
    """An outage is detected early."""
    with gemini_client.make_http_client() as client, pytest.raises(httpx.ConnectError) as caught:
        client.post(f"http://127.0.0.1:{_silent_port()}", timeout=120)

    timeout = caught.value.request.extensions["timeout"]
    assert (timeout["connect"], timeout["read"]) == (gemini_client.CONNECT_SECONDS, 120)


@pytest.mark.parametrize(
    "reply", [gemini_server.SILENCE, gemini_server.DRIP], ids=["silent", "a byte at a time"]
)
def test_endless_response_times_out(
    server: gemini_server.GeminiServer, make: engines.Make, reply: gemini_server.Reply
) -> None:
    """It is not an outage; further chunks do not extend the timeout."""
    server.script = [reply] * 2

    with pytest.raises(errors.ReadingTimedOut, match="TIMEOUT_SECONDS"):
        engines.read_page(make(gemini_timeout_seconds=0.15, gemini_max_retries=1))


def test_short_outage_is_retried(server: gemini_server.GeminiServer, make: engines.Make) -> None:
    """The page is read in spite of different failures."""
    server.script = [
        gemini_server.error_reply(503),
        gemini_server.HANG_UP,
        gemini_server.error_reply(429, headers={"Retry-After": "2"}),
        gemini_server.extraction_reply(gemini_server.line("a")),
        gemini_server.error_reply(500),
        gemini_server.boost_reply((1, "b")),
    ]

    assert engines.list_texts(engines.read_page(make())) == ["b"]


def test_unusable_answer_is_retried_once(
    server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """The page is read if the second answer is valid."""
    server.script = [
        gemini_server.text_reply("{"),
        gemini_server.extraction_reply(gemini_server.line("a")),
        gemini_server.boost_reply(),
    ]

    assert engines.list_texts(engines.read_page(make())) == ["a"]


@pytest.mark.parametrize(
    "replies",
    [
        [gemini_server.blocked_answer_reply("RECITATION")],
        [gemini_server.blocked_prompt_reply("OTHER")],
        [gemini_server.text_reply('{"corrections": [', "MAX_TOKENS")] * 2,
        [gemini_server.text_reply("no JSON")] * 2,
        [gemini_server.error_reply(400, "INVALID_ARGUMENT")],
    ],
)
def test_page_that_cannot_be_boosted_keeps_its_extracted_lines(
    server: gemini_server.GeminiServer, make: engines.Make, replies: list[gemini_server.Reply]
) -> None:
    """The result of the first request is not lost."""
    server.script = [gemini_server.extraction_reply(gemini_server.line("read")), *replies]

    assert engines.list_texts(engines.read_page(make())) == ["read"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (gemini_server.error_reply(503), errors.EngineUnavailable),
        (gemini_server.error_reply(429), errors.RateLimited),
        (gemini_server.error_reply(403), errors.ApiKeyRejected),
        (gemini_server.error_reply(504), errors.ReadingTimedOut),
    ],
)
def test_service_that_fails_during_the_boost_fails_the_page(
    server: gemini_server.GeminiServer,
    make: engines.Make,
    reply: gemini_server.Reply,
    expected: type[errors.PagewardenError],
) -> None:
    """It is read again later; otherwise it would keep a lower quality."""
    server.script = [gemini_server.extraction_reply(gemini_server.line("a")), reply]

    with pytest.raises(expected):
        engines.read_page(make(gemini_max_retries=0))
