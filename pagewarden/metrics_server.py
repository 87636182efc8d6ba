"""Serve what a process counts at /metrics on a port of its own, beside whatever else it does."""

from __future__ import annotations

import contextlib
import errno
import functools
import http
import socket
import threading
from http import server
from typing import TYPE_CHECKING, cast

import structlog

from pagewarden import errors, keys, meters, scrapers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

PATH = "/metrics"
# Several processes of a machine may have the same setting.
NEXT_PORTS = 100
REQUEST_SECONDS = 5.0
STOP_SECONDS = 0.1


@contextlib.contextmanager
def serving(chosen: Settings) -> Iterator[str | None]:
    """Serve meanwhile, if a port is set; the address is in the log."""
    if chosen.metrics_port is None:
        yield None
        return
    door = scrapers.door(chosen, keys.find_secret_key(chosen))
    with _listening(chosen.metrics_host, chosen.metrics_port, door) as made:
        host = f"[{chosen.metrics_host}]" if ":" in chosen.metrics_host else chosen.metrics_host
        url = f"http://{host}:{made.server_port}{PATH}"
        log.info("metrics_served", url=url)
        # A thread: it answers also while the loop is busy, which is worth knowing.
        serve = functools.partial(made.serve_forever, poll_interval=STOP_SECONDS)
        threading.Thread(target=serve, name="metrics", daemon=True).start()
        try:
            yield url
        finally:
            made.shutdown()


class _Server(server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], door: scrapers.Door, family: int) -> None:
        self.address_family = family
        self.door = door
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that leave."""


class _Handler(server.BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server_version = "pagewarden"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the meters, to whoever may see them."""
        if self.path.partition("?")[0] != PATH:
            self._answer(http.HTTPStatus.NOT_FOUND, f"there is only {PATH}\n".encode())
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not cast("_Server", self.server).door.admits(self.client_address[0], headers):
            self._answer(http.HTTPStatus.UNAUTHORIZED, f"{scrapers.REFUSAL}\n".encode())
            return
        self._answer(http.HTTPStatus.OK, meters.here().as_text(), meters.MEDIA_TYPE)

    def log_message(self, *_: object) -> None:
        """Write no line for each scrape."""

    def _answer(
        self, status: http.HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        if status is http.HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _listening(host: str, port: int, door: scrapers.Door) -> _Server:
    """Take the port, or the next that is free."""
    last = port if port == 0 else min(port + NEXT_PORTS, 65_535)
    for number in range(port, last + 1):
        try:
            (family, *_), *_ = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)
            return _Server((host, number), door, family)
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise _unusable(host, number, exc) from exc
    raise _unusable(host, port, OSError(errno.EADDRINUSE, f"nor is any other up to {last} free"))


def _unusable(host: str, port: int, exc: OSError) -> errors.SettingsError:
    return errors.SettingsError(
        f"metrics cannot be served at {host} port {port}: {exc.strerror}; set "
        "PAGEWARDEN_METRICS_PORT and PAGEWARDEN_METRICS_HOST to something else, or to nothing"
    )
