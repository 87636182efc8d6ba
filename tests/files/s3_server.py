"""moto's S3 on loopback, which does wrong what a test asks it to."""

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
    """What happens to requests whose method, path and query match, so many times."""

    pattern: str
    way: int | Literal["hang up", "lose the answer", "break off", "wait"]  # a number is a status
    times: int = 1_000_000


@dataclass(slots=True)
class S3Server:
    """The server, and what it was asked.

    Who asked is the id of the key, and the token that came with it. With ignores_conditions it
    writes over what is there, as Supabase Storage does.
    """

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    askers: list[tuple[str, str | None]] = field(default_factory=list)
    ignores_conditions: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    # moto looks, and then writes; S3 does both at once.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self) -> None:
        """Forget what the last test asked for."""
        self.faults.clear()
        self.requests.clear()
        self.askers.clear()
        self.ignores_conditions = False
        self.reached.clear()
        self.go_on.clear()

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self._ask("PUT", f"/{name}")

    def put(self, target: str, headers: Mapping[str, str] | None = None) -> None:
        """Put something there, past the store."""
        self._ask("PUT", target, headers)

    def keys(self, bucket: str) -> list[str]:
        """List everything in a bucket, as it is called there."""
        return re.findall("<Key>(.*?)</Key>", self._ask("GET", f"/{bucket}?list-type=2"))

    def unfinished(self, bucket: str) -> list[str]:
        """List the uploads in parts that nobody completed or aborted."""
        return re.findall("<Key>(.*?)</Key>", self._ask("GET", f"/{bucket}?uploads"))

    def _ask(self, method: str, target: str, headers: Mapping[str, str] | None = None) -> str:
        address = self.url.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(address)) as connection:
            connection.request(method, target, headers=headers or {})
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()

    def next_fault(self, request: str) -> Fault | None:
        """Note a request and decide what becomes of it."""
        self.requests.append(request)
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.pattern, request):
                fault.times -= 1
                return fault
        return None


class _QuietHandler(MotoRequestHandler):
    disable_nagle_algorithm = True

    def log(self, *args: object) -> None:
        """Keep quiet."""


class _Application:
    def __init__(self, server: S3Server) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = server

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        if asker := re.search("Credential=([^/]*)", environ.get("HTTP_AUTHORIZATION", "")):
            token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
            self._server.askers.append((asker[1], token))
        if self._server.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        fault = self._server.next_fault(request)
        if fault is None:
            return self._do(environ, start_response)
        if isinstance(fault.way, int):
            start_response(f"{fault.way} Fault", [("Content-Type", "application/xml")])
            return [b"<Error><Code>Fault</Code></Error>"]
        if fault.way == "break off":
            return self._do_half(environ, start_response)
        if fault.way == "wait":  # says that it was reached, and works when told to go on
            self._server.reached.set()
            assert self._server.go_on.wait(_WAIT_SECONDS)
            return self._do(environ, start_response)
        if fault.way == "lose the answer":
            list(self._do(environ, lambda *_: None))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start_response("500 Lost", [])
        return []

    def _do(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._server.lock:
            answer: Iterable[bytes] = self._moto(environ, start_response)
            return answer

    def _do_half(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        body = b"".join(self._do(environ, start_response))
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
