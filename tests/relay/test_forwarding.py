"""The relay forwards requests and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from tests.relay.conftest import Relayed


@pytest.mark.parametrize("prefix", ["/functions/v1", ""])
async def test_request_is_forwarded_unchanged(relayed: Relayed, prefix: str) -> None:
    """Method, path, query, body and headers, with and without the prefix of the path."""
    path = "/documents/a%20b/%C3%A9t%C3%A9?x=1&x=2&y=%26"
    body = bytes(range(256)) * 100
    sent = {
        "authorization": "Bearer abc",
        "apikey": "sb_publishable_1",
        "content-type": "application/x-thing",
        "x-file-name": "%C3%A9t%C3%A9.pdf",
    }
    await relayed.client.put(prefix + path, content=body, headers=sent)
    (request,) = relayed.upstream.requests
    assert (request.method, request.target, request.body) == ("PUT", "/functions/v1" + path, body)
    assert {name: request.header(name) for name in sent} == sent


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_is_forwarded(relayed: Relayed, method: str) -> None:
    """Including OPTIONS that is not a preflight, and requests without a body."""
    response = await relayed.client.request(method, "/documents/1")
    assert response.status_code == 200
    (request,) = relayed.upstream.requests
    assert (request.method, request.body) == (method, b"")


async def test_response_is_returned_unchanged(relayed: Relayed) -> None:
    """Status, headers, repeated ones too, and the exact bytes."""
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
    response = await relayed.client.post("/upload-to-dropbox")
    assert (response.status_code, response.content) == (202, relayed.upstream.body)
    for name, value in relayed.upstream.headers:
        assert value.decode() in response.headers.get_list(name.decode())


@pytest.mark.parametrize("status", [200, 201, 204, 301, 304, 400, 404, 409, 429, 500, 503])
async def test_every_status_is_returned(relayed: Relayed, status: int) -> None:
    """With a body or without."""
    relayed.upstream.status = status
    bare = status in {204, 304}
    relayed.upstream.body = b"" if bare else b'{"error": "X"}'
    relayed.upstream.headers = [(b"retry-after", b"7"), (b"location", b"/elsewhere")]
    response = await relayed.client.get("/documents/1")
    assert (response.status_code, response.content) == (status, relayed.upstream.body)
    assert response.headers["retry-after"] == "7"


async def test_redirect_is_not_followed(relayed: Relayed) -> None:
    """The relay calls no other server than Pagewarden."""
    relayed.upstream.status = 307
    relayed.upstream.headers = [(b"location", relayed.upstream_url.encode() + b"/secret")]
    response = await relayed.client.post("/documents/1", content=b"abc")
    assert response.status_code == 307
    assert response.headers["location"] == f"{relayed.upstream_url}/secret"
    assert len(relayed.upstream.requests) == 1


async def test_hop_by_hop_headers_are_removed(relayed: Relayed) -> None:
    """Including those that Connection names, in both directions."""
    relayed.upstream.headers = [
        (b"connection", b"x-inner"),
        (b"x-inner", b"1"),
        (b"keep-alive", b"timeout=5"),
    ]
    sent = {"connection": "x-outer, ,", "x-outer": "1", "te": "trailers", "keep-alive": "1"}
    response = await relayed.client.get("/documents/1", headers=sent)
    (request,) = relayed.upstream.requests
    assert [name for name in ("x-outer", "te", "keep-alive") if request.header(name)] == []
    assert {"x-inner", "keep-alive"}.isdisjoint(response.headers)


async def test_compression_is_not_requested(relayed: Relayed) -> None:
    """Deno would decompress the response, and CPU time is limited on Supabase."""
    await relayed.client.get("/documents/1", headers={"accept-encoding": "gzip, br"})
    (request,) = relayed.upstream.requests
    assert request.header("accept-encoding") == "identity"


async def test_client_and_original_host_are_forwarded(relayed: Relayed) -> None:
    """In headers; Host is that of Pagewarden."""
    await relayed.client.get("/documents/1")
    (request,) = relayed.upstream.requests
    assert request.header("host") == urlsplit(relayed.upstream_url).netloc
    assert request.header("x-forwarded-host") == urlsplit(relayed.relay.url).netloc
    assert request.header("x-forwarded-proto") == "http"
    assert request.header("x-forwarded-for") == "127.0.0.1"


async def test_forwarded_headers_of_the_gateway_are_kept(relayed: Relayed) -> None:
    """Supabase's gateway knows the client; its runtime sees an internal name and no address."""
    forwarded = {
        "x-forwarded-for": "203.0.113.9",
        "x-forwarded-host": "abc.supabase.co",
        "x-forwarded-proto": "https",
    }
    await relayed.client.get("/documents/1", headers=forwarded)
    (request,) = relayed.upstream.requests
    assert {name: request.header(name) for name in forwarded} == forwarded


async def test_preflight_is_answered_by_the_relay(relayed: Relayed) -> None:
    """For the headers that Supabase's client sends."""
    requested = "authorization,apikey,content-type,x-client-info,x-file-name"
    preflight = {
        "origin": "https://app.example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": requested,
    }
    response = await relayed.client.options("/functions/v1/upload-to-dropbox", headers=preflight)
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["access-control-allow-headers"] == requested
    assert "POST" in response.headers["access-control-allow-methods"]
    assert relayed.upstream.requests == []


async def test_browser_may_read_the_response(relayed: Relayed) -> None:
    """Also an error of the relay itself; headers of Pagewarden take precedence."""
    for path in ("/documents/1", "/nonsense"):
        response = await relayed.client.get(path)
        assert response.headers["access-control-allow-origin"] == "*"
    relayed.upstream.headers = [(b"access-control-allow-origin", b"https://app.example.org")]
    response = await relayed.client.get("/documents/1")
    assert response.headers["access-control-allow-origin"] == "https://app.example.org"
