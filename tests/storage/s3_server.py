"""moto's S3 server on loopback, with faults on request."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ACCESS_KEY = "access-key"
SECRET_KEY = "secret-key"
REGION = "us-east-1"

_WAIT_SECONDS = 10.0


@dataclass(slots=True)
class Fault:
    """A fault for the next requests whose method, path and query match the pattern."""

    pattern: str
    way: int | Literal["hang up", "lose the response", "break off", "wait"]  # a number is a status
    times: int = 1_000_000


@dataclass(slots=True)
class S3Server:
    """The server and its requests.

    `callers` are the access key IDs and session tokens of requests. With `ignores_conditions`, it
    overwrites existing objects, as Supabase Storage does.
    """

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    callers: list[tuple[str, str | None]] = field(default_factory=list)
    ignores_conditions: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    # moto checks conditions and writes in two steps; S3 does both atomically.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self) -> None:
        """Reset the requests and faults of the last test."""
        self.faults.clear()
        self.requests.clear()
        self.callers.clear()
        self.ignores_conditions = False
        self.reached.clear()
        self.go_on.clear()

    def make_bucket(self, name: str) -> None:
        """Create an empty bucket."""
        self._request("PUT", f"/{name}")

    def put(self, target: str, headers: Mapping[str, str] | None = None) -> None:
        """Create an object without the store."""
        self._request("PUT", target, headers)

    def keys(self, bucket: str) -> list[str]:
        """List all keys of a bucket."""
        return re.findall("<Key>(.*?)</Key>", self._request("GET", f"/{bucket}?list-type=2"))

    def unfinished(self, bucket: str) -> list[str]:
        """List the multipart uploads that were neither completed nor aborted."""
        return re.findall("<Key>(.*?)</Key>", self._request("GET", f"/{bucket}?uploads"))

    def _request(self, method: str, target: str, headers: Mapping[str, str] | None = None) -> str:
        address = self.url.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(address)) as connection:
            connection.request(method, target, headers=headers or {})
            response = connection.getresponse()
            assert response.status == 200
            return response.read().decode()

    def next_fault(self, request: str) -> Fault | None:
        """Record a request and return its fault, if any."""
        self.requests.append(request)
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.pattern, request):
                fault.times -= 1
                return fault
        return None


class _QuietHandler(MotoRequestHandler):
    disable_nagle_algorithm = True

    def log(self, *args: object) -> None:
        """Do not log."""


class _Application:
    def __init__(self, server: S3Server) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = server

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        if caller := re.search("Credential=([^/]*)", environ.get("HTTP_AUTHORIZATION", "")):
            token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
            self._server.callers.append((caller[1], token))
        if self._server.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        fault = self._server.next_fault(request)
        if fault is None:
            return self._handle(environ, start_response)
        if isinstance(fault.way, int):
            start_response(f"{fault.way} Fault", [("Content-Type", "application/xml")])
            return [b"<Error><Code>Fault</Code></Error>"]
        if fault.way == "break off":
            return self._send_half(environ, start_response)
        if fault.way == "wait":  # signals that it was reached, and continues on go_on
            self._server.reached.set()
            assert self._server.go_on.wait(_WAIT_SECONDS)
            return self._handle(environ, start_response)
        if fault.way == "lose the response":
            list(self._handle(environ, lambda *_: None))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start_response("500 Lost", [])
        return []

    def _handle(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._server.lock:
            response: Iterable[bytes] = self._moto(environ, start_response)
            return response

    def _send_half(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        body = b"".join(self._handle(environ, start_response))
        yield body[: len(body) // 2]
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def running() -> Iterator[S3Server]:
    """Run a server on a free port."""
    s3 = S3Server()
    server = make_server(
        "127.0.0.1", 0, _Application(s3), threaded=True, request_handler=_QuietHandler
    )
    s3.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield s3
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
