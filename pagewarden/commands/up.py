"""pagewarden up: the whole system on one machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from psycopg import pq
from rich.console import Console
from rich.text import Text

from pagewarden import database, errors, keys, settings, weak_secrets
from pagewarden.local import scheduler, stack, supervisor, volume_parts
from pagewarden.local.sign_in import service as sign_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.local import server

FIRST_ADMIN = "admin@pagewarden.local"
WATCH_SECONDS = 1.0
READY_SECONDS = 120.0

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def command() -> None:
    """Start the whole system on this machine, until Ctrl-C."""
    asyncio.run(_up(settings.load()))


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
            group.create_task(supervisor.run(_parts(gpu_url, here=gpu_is_ours), stop, _say))
            group.create_task(volume_parts.run(connection, found.url, chosen, stop, _say))
            group.create_task(_announce(served, gpu_url, stop))
        out.print("stopped")


def _parts(gpu_url: str, *, here: bool) -> Sequence[supervisor.Part]:
    gpu = {"PAGEWARDEN_GPU_SERVICE_URL": gpu_url}
    parts = [
        supervisor.Part("functions", supervisor.program("functions"), gpu),
        supervisor.Part("worker", supervisor.program("pagewarden.cli", "work"), gpu),
    ]
    if here:
        parts.append(supervisor.Part("gpu", supervisor.program("gpu_service"), gpu))
    return parts


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
            err.print("[yellow]the database is gone; starting it again[/]")
            try:
                await local.revive()
            except errors.LocalStackError as exc:
                err.print(f"[red]{exc}[/]")
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
            err.print(f"[yellow]{url} is not ready after {READY_SECONDS:g} s; see above why[/]")
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)
    return False


def _say(part: str, line: str) -> None:
    err.print(Text.assemble((f"{part:>9} │ ", "cyan"), Text.from_ansi(line)), soft_wrap=True)
