"""pagewarden up: the whole system on one machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import structlog
from psycopg import pq
from rich.console import Console
from rich.text import Text

from pagewarden import database, errors, keys, observed, settings, weak_secrets
from pagewarden.local import scheduler, stack, supervisor, volume_parts
from pagewarden.local.sign_in import service as sign_in
from pagewarden.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.local import server

log = structlog.get_logger(__name__)

FIRST_ADMIN = "admin@pagewarden.local"
# Of our programs, counted from PAGEWARDEN_METRICS_PORT.
_WORKER_PORT = 0
_OWN_PORT = 1
_VOLUMES_PORT = 2  # and the next ones
WATCH_SECONDS = 1.0
READY_SECONDS = 120.0

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def command() -> None:
    """Start the whole system on this machine, until Ctrl-C."""
    chosen = settings.load()
    with observed.serve_metrics(_with_port(chosen, _OWN_PORT)):
        asyncio.run(_up(chosen))


async def _up(chosen: settings.Settings) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    served = url_of(chosen.listen_host, chosen.listen_port)
    gpu_url = str(chosen.gpu_service_url or settings.GPU_SERVICE_URL).rstrip("/")
    gpu_is_ours = weak_secrets.is_this_machine(gpu_url)
    for url in (served, gpu_url) if gpu_is_ours else (served,):
        require_free(url)
    with out.status("starting the database"):
        resources = contextlib.AsyncExitStack()
        found = await resources.enter_async_context(stack.ready(chosen))
    async with resources, await database.connect_direct(found.url) as connection:
        out.print(f"[green]●[/] {found.place}, {found.news}")
        known = keys.load(chosen)
        await _introduce(found.url, known, chosen)
        async with asyncio.TaskGroup() as group:
            if found.server is not None:
                group.create_task(_watch(found.server, stop))
            timetable = scheduler.Scheduler(connection, served, known.secret_key)
            group.create_task(scheduler.sweep(connection, stop, seconds=chosen.sweep_seconds))
            group.create_task(scheduler.watch(connection, stop))
            group.create_task(timetable.run(stop))
            parts = parts_of(chosen, gpu_url, here=gpu_is_ours)
            say = _say if logs.output_format() == "console" else say_in_json
            group.create_task(supervisor.run(parts, stop, say))
            books = volume_parts.Volumes(connection, found.url, chosen, _of_volumes(chosen))
            group.create_task(books.run(stop, say))
            group.create_task(_announce(served, gpu_url, stop))
        out.print("stopped")


def parts_of(chosen: settings.Settings, gpu_url: str, *, here: bool) -> Sequence[supervisor.Part]:
    """Name the programs to start, with the GPU service if it is to be here."""
    shared = {"PAGEWARDEN_GPU_SERVICE_URL": gpu_url, **_manner()}
    working = {**shared, **_port(_with_port(chosen, _WORKER_PORT))}
    parts = [
        supervisor.Part("functions", supervisor.program("functions"), shared),
        supervisor.Part("worker", supervisor.program("pagewarden.cli", "work"), working),
    ]
    if here:
        parts.append(supervisor.Part("gpu", supervisor.program("gpu_service"), shared))
    return parts


def _of_volumes(chosen: settings.Settings) -> Mapping[str, str]:
    return {**_manner(), **_port(_with_port(chosen, _VOLUMES_PORT))}


def _manner() -> Mapping[str, str]:
    """Have parts write their lines as we do, though they write to us and not to a terminal."""
    colours = {"FORCE_COLOR": "1"} if sys.stderr.isatty() else {}
    return {logs.FORMAT_SETTING: logs.output_format(), **colours}


def _with_port(chosen: settings.Settings, number: int) -> settings.Settings:
    """Give one of our programs its own port for metrics; any free one is any free one."""
    port = chosen.metrics_port and min(chosen.metrics_port + number, 65_535)
    return chosen.model_copy(update={"metrics_port": port})


def _port(chosen: settings.Settings) -> Mapping[str, str]:
    port = chosen.metrics_port
    return {} if port is None else {"PAGEWARDEN_METRICS_PORT": str(port)}


def url_of(host: str, port: int) -> str:
    """Write where something is served; addresses of IPv6 have brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def require_free(url: str) -> None:
    """See before anything is started that its port is free."""
    place = urlsplit(url)
    try:
        (family, kind, *_, address), *_ = socket.getaddrinfo(
            place.hostname, place.port or place.scheme, type=socket.SOCK_STREAM
        )
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as exc:
        raise errors.LocalStackError(
            f"{place.netloc} cannot be used: {exc.strerror}; end what runs there, or set "
            "PAGEWARDEN_LISTEN_PORT or PAGEWARDEN_GPU_SERVICE_URL to another port"
        ) from exc


async def _introduce(url: str, known: keys.Keys, chosen: settings.Settings) -> None:
    """Where nobody can sign in yet, add somebody, and say how."""
    service = sign_in.Service(url, known, site_url=chosen.site_url)
    try:
        password = await service.users.add_first_admin(FIRST_ADMIN)
    finally:
        await service.aclose()
    if password is not None:
        out.print(f"[green]●[/] the first sign-in: [bold]{FIRST_ADMIN}[/] with the password")
        out.print(f"      [bold]{password}[/]")
        out.print("  It is shown only now; [bold]pagewarden user reset[/] makes another.")


async def _watch(local: server.LocalServer, stop: asyncio.Event) -> None:
    """Start the database again when it has died."""
    while not stop.is_set():
        if await local.address.ping() == pq.Ping.NO_RESPONSE:
            log.warning("database_gone", then="starting it again")
            try:
                await local.revive()
            except errors.LocalStackError as exc:
                log.warning("database_not_started", error=str(exc))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)


async def _announce(served: str, gpu_url: str, stop: asyncio.Event) -> None:
    """Say where to go, once something is there."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, url in (("dashboard and functions", served), ("GPU service", gpu_url)):
            if not await _is_ready(client, url, stop):
                return
            out.print(f"[green]●[/] {name} at {url}")
    out.print("Pagewarden is up. Ctrl-C stops it. Give it something to read:")
    out.print(f"  [bold]{_command_name()} upload FILE --wait[/]")


def _command_name() -> str:
    """Name our command so that it can be typed in this folder."""
    if shutil.which("pagewarden"):
        return "pagewarden"
    return os.path.relpath(Path(sys.executable).parent / "pagewarden")


async def _is_ready(client: httpx.AsyncClient, url: str, stop: asyncio.Event) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    while not stop.is_set():
        with contextlib.suppress(httpx.HTTPError):
            if (await client.get(f"{url.rstrip('/')}/readyz")).is_success:
                return True
        if loop.time() > deadline:
            log.warning("not_ready", url=url, after_seconds=READY_SECONDS)
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)
    return False


def _say(part: str, line: str) -> None:
    err.print(Text.assemble((f"{part:>9} │ ", "cyan"), Text.from_ansi(line)), soft_wrap=True)


def say_in_json(part: str, line: str) -> None:
    """Pass on a line of a part, with its name in it; what is no JSON becomes some."""
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if isinstance(said, dict):
        sys.stderr.write(json.dumps({**said, "part": part}, ensure_ascii=False) + "\n")
    elif line:
        log.info("said", part=part, line=line)
