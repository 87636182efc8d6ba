"""The relay hands on what is asked, and what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from tests.relay.conftest import Relayed


@pytest.mark.parametrize("prefix", ["/functions/v1", ""])
async def test_a_request_arrives_as_it_was_sent(relayed: Relayed, prefix: str) -> None:
    """Method, path, query, body and headers, in both forms that Supabase shows a path in."""
    path = "/documents/a%20b/%C3%A9t%C3%A9?x=1&x=2&y=%26"
    body = bytes(range(256)) * 100
    sent = {
        "authorization": "Bearer abc",
        "apikey": "sb_publishable_1",
        "content-type": "application/x-thing",
        "x-file-name": "%C3%A9t%C3%A9.pdf",
    }
    await relayed.client.put(prefix + path, content=body, headers=sent)
    (seen,) = relayed.upstream.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", "/functions/v1" + path, body)
    assert {name: seen.header(name) for name in sent} == sent


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_is_handed_on(relayed: Relayed, method: str) -> None:
    """Also an OPTIONS that is no preflight, and requests without a body."""
    answer = await relayed.client.request(method, "/documents/1")
    assert answer.status_code == 200
    (seen,) = relayed.upstream.seen
    assert (seen.method, seen.body) == (method, b"")


async def test_an_answer_comes_back_as_it_was_given(relayed: Relayed) -> None:
    """Status, headers, also those that come twice, and the very bytes."""
    relayed.upstream.status = 202
    relayed.upstream.body = bytes(range(256))
    relayed.upstream.headers = [
        (b"content-type", b"application/pdf"),
        (b"content-disposition", b'attachment; filename="a.pdf"'),
        (b"location", b"https://pagewarden.example.org/functions/v1/documents/1"),
        (b"set-cookie", b"a=1; Path=/"),
        (b"set-cookie", b"b=2; Path=/"),
        (b"x-own", b"kept"),
    ]
    answer = await relayed.client.post("/upload-to-dropbox")
    assert (answer.status_code, answer.content) == (202, relayed.upstream.body)
    for name, value in relayed.upstream.headers:
        assert value.decode() in answer.headers.get_list(name.decode())


@pytest.mark.parametrize("status", [200, 201, 204, 301, 304, 400, 404, 409, 429, 500, 503])
async def test_every_status_comes_back(relayed: Relayed, status: int) -> None:
    """Whether it carries a body or may not."""
    relayed.upstream.status = status
    bare = status in {204, 304}
    relayed.upstream.body = b"" if bare else b'{"error": "X"}'
    relayed.upstream.headers = [(b"retry-after", b"7"), (b"location", b"/elsewhere")]
    answer = await relayed.client.get("/documents/1")
    assert (answer.status_code, answer.content) == (status, relayed.upstream.body)
    assert answer.headers["retry-after"] == "7"


async def test_a_redirect_is_left_to_the_caller(relayed: Relayed) -> None:
    """The relay calls nobody but Pagewarden."""
    relayed.upstream.status = 307
    relayed.upstream.headers = [(b"location", relayed.upstream_url.encode() + b"/secret")]
    answer = await relayed.client.post("/documents/1", content=b"abc")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{relayed.upstream_url}/secret"
    assert len(relayed.upstream.seen) == 1


async def test_what_is_meant_for_one_connection_stays_there(relayed: Relayed) -> None:
    """Hop-by-hop headers, and those that Connection names, in both directions."""
    relayed.upstream.headers = [
        (b"connection", b"x-inner"),
        (b"x-inner", b"1"),
        (b"keep-alive", b"timeout=5"),
    ]
    sent = {"connection": "x-outer, ,", "x-outer": "1", "te": "trailers", "keep-alive": "1"}
    answer = await relayed.client.get("/documents/1", headers=sent)
    (seen,) = relayed.upstream.seen
    assert [name for name in ("x-outer", "te", "keep-alive") if seen.header(name)] == []
    assert {"x-inner", "keep-alive"}.isdisjoint(answer.headers)


async def test_bytes_travel_unpacked(relayed: Relayed) -> None:
    """Deno would unpack what comes packed, and the processor's time is short on Supabase."""
    await relayed.client.get("/documents/1", headers={"accept-encoding": "gzip, br"})
    (seen,) = relayed.upstream.seen
    assert seen.header("accept-encoding") == "identity"


async def test_pagewarden_learns_who_called_and_where(relayed: Relayed) -> None:
    """The Host is its own; whom the caller meant, and who that was, is said beside it."""
    await relayed.client.get("/documents/1")
    (seen,) = relayed.upstream.seen
    assert seen.header("host") == urlsplit(relayed.upstream_url).netloc
    assert seen.header("x-forwarded-host") == urlsplit(relayed.relay.url).netloc
    assert seen.header("x-forwarded-proto") == "http"
    assert seen.header("x-forwarded-for") == "127.0.0.1"


async def test_what_the_gateway_said_of_the_caller_is_kept(relayed: Relayed) -> None:
    """Supabase's gateway knows both sides; its runtime sees an inner name and no address."""
    said = {
        "x-forwarded-for": "203.0.113.9",
        "x-forwarded-host": "abc.supabase.co",
        "x-forwarded-proto": "https",
    }
    await relayed.client.get("/documents/1", headers=said)
    (seen,) = relayed.upstream.seen
    assert {name: seen.header(name) for name in said} == said


async def test_a_browser_may_ask_first(relayed: Relayed) -> None:
    """The relay answers a preflight by itself, for the headers that Supabase's client sends."""
    wanted = "authorization,apikey,content-type,x-client-info,x-file-name"
    asked = {
        "origin": "https://app.example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": wanted,
    }
    answer = await relayed.client.options("/functions/v1/upload-to-dropbox", headers=asked)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-headers"] == wanted
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert relayed.upstream.seen == []


async def test_a_browser_may_read_the_answer(relayed: Relayed) -> None:
    """Also one of the relay's own; Pagewarden's word about it counts more."""
    for path in ("/documents/1", "/nonsense"):
        answer = await relayed.client.get(path)
        assert answer.headers["access-control-allow-origin"] == "*"
    relayed.upstream.headers = [(b"access-control-allow-origin", b"https://app.example.org")]
    answer = await relayed.client.get("/documents/1")
    assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
