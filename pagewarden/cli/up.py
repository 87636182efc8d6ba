"""`pagewarden up`: run the whole system on one machine."""

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
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import httpx
import structlog
import typer
from psycopg import pq
from rich.console import Console
from rich.text import Text

from pagewarden import database, errors
from pagewarden.auth import keys
from pagewarden.auth.embedded.service import AuthService
from pagewarden.cli import program
from pagewarden.database import listener
from pagewarden.documents import worker
from pagewarden.local import scheduler, stack, supervisor
from pagewarden.settings import GPU_SERVICE_URL, secrets
from pagewarden.settings import load as load_settings
from pagewarden.telemetry import logs
from pagewarden.volumes import orchestrator, queues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pagewarden.local import server
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

FIRST_ADMIN = "admin@pagewarden.local"
# Metrics ports, as offsets from PAGEWARDEN_METRICS_PORT.
_WORKER_PORT = 0
_OWN_PORT = 1
_VOLUMES_PORT = 2
WATCH_SECONDS = 1.0
READY_SECONDS = 120.0

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def command(
    *,
    serverless: Annotated[
        bool,
        typer.Option(
            "--serverless",
            help="Run no workers: the schedule and notifications call the functions over HTTP, as "
            "pg_cron and pg_net do on Supabase.",
        ),
    ] = False,
) -> None:
    """Run the whole system on this machine until Ctrl-C."""
    settings = load_settings()
    with program.serve_metrics(_with_metrics_port(settings, _OWN_PORT)):
        asyncio.run(_run_all(settings, is_serverless=serverless))


async def _run_all(settings: Settings, *, is_serverless: bool) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    server_url = make_url(settings.listen_host, settings.listen_port)
    gpu_url = str(settings.gpu_service_url or GPU_SERVICE_URL).rstrip("/")
    with_gpu_service = secrets.is_loopback_url(gpu_url)
    for url in (server_url, gpu_url) if with_gpu_service else (server_url,):
        require_free_port(url)
    with out.status("starting the database"):
        resources = contextlib.AsyncExitStack()
        found = await resources.enter_async_context(stack.open_migrated(settings))
    async with resources, await database.connect_direct(found.url) as connection:
        out.print(f"[green]●[/] {found.description}, {found.summary}")
        server_keys = keys.load_keys(settings)
        await _add_first_admin(found.url, server_keys, settings)
        async with asyncio.TaskGroup() as group:
            if found.server is not None:
                group.create_task(_restart_database(found.server, stop))
            timetable = scheduler.Scheduler(
                connection,
                server_url,
                server_keys.secret_key,
                is_serverless=is_serverless,
                excluded=frozenset() if is_serverless else scheduler.PROGRAMS_OF_UP,
            )
            await resources.enter_async_context(timetable.listen(found.url))
            group.create_task(
                worker.sweep_periodically(connection, stop, seconds=settings.sweep_seconds)
            )
            group.create_task(scheduler.evaluate_alerts_periodically(connection, stop))
            group.create_task(_run_scheduler(timetable, stop))
            programs = list_programs(
                settings,
                gpu_url,
                with_gpu_service=with_gpu_service,
                functions_url=server_url if is_serverless else None,
            )
            print_line = _print_line if logs.get_output_format() == "console" else print_json_line
            group.create_task(supervisor.run_programs(programs, stop, print_line))
            if not is_serverless:
                group.create_task(_run_volumes(connection, found.url, settings, stop, print_line))
            group.create_task(
                _print_urls_when_ready(server_url, gpu_url, stop, is_serverless=is_serverless)
            )
        out.print("stopped")


def list_programs(
    settings: Settings, gpu_url: str, *, with_gpu_service: bool, functions_url: str | None = None
) -> Sequence[supervisor.Program]:
    """List the programs to start; a remote GPU service is not one of them.

    With functions_url, functions call each other there, and no worker runs.
    """
    shared = {"PAGEWARDEN_GPU_SERVICE_URL": gpu_url, **_make_log_environment()}
    dispatching = _make_dispatch_environment(functions_url) if functions_url else {}
    programs = [
        supervisor.Program(
            "functions",
            supervisor.make_program_command("pagewarden.functions"),
            {**shared, **dispatching},
        )
    ]
    if functions_url is None:
        with_port = _make_metrics_environment(_with_metrics_port(settings, _WORKER_PORT))
        programs.append(
            supervisor.Program(
                "worker",
                supervisor.make_program_command("pagewarden", "work"),
                {**shared, **with_port},
            )
        )
    if with_gpu_service:
        programs.append(
            supervisor.Program(
                "gpu", supervisor.make_program_command("pagewarden.gpu_service"), shared
            )
        )
    return programs


async def _run_scheduler(timetable: scheduler.Scheduler, stop: asyncio.Event) -> None:
    """Call functions when they are due, once their server responds."""
    async with httpx.AsyncClient(trust_env=False) as client:
        await _wait_until_ready(client, timetable.url, stop)
    await timetable.run(stop)


def _make_dispatch_environment(functions_url: str) -> Mapping[str, str]:
    return {"PAGEWARDEN_DISPATCH": "http", "PAGEWARDEN_FUNCTIONS_URL": functions_url}


async def _run_volumes(
    connection: database.Database,
    url: str,
    settings: Settings,
    stop: asyncio.Event,
    write_line: Callable[[str, str], None],
) -> None:
    """Run the volume orchestrator, and stage workers while there are jobs."""
    publisher = queues.open_publisher(settings)
    with_port = _with_metrics_port(settings, _VOLUMES_PORT)
    environment = {**_make_log_environment(), **_make_metrics_environment(with_port)}
    async with listener.open_listener(url, listener.VOLUME_CHANNEL) as hints:
        running = orchestrator.Orchestrator(connection, "up", publisher, hints)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.run(stop))
            for number in range(1, settings.volume_workers + 1):
                command = supervisor.make_program_command("pagewarden", "volumes", "work")
                stage_worker = supervisor.Program(f"volumes-{number}", command, environment)
                on_demand = supervisor.OnDemandProgram(stage_worker, running.busy, write_line)
                group.create_task(on_demand.run(stop))


def _make_log_environment() -> Mapping[str, str]:
    """Make programs log in our format, though their output is a pipe."""
    colours = {"FORCE_COLOR": "1"} if sys.stderr.isatty() else {}
    return {logs.FORMAT_SETTING: logs.get_output_format(), **colours}


def _with_metrics_port(settings: Settings, port_offset: int) -> Settings:
    """Return settings with the metrics port of a program; 0, any free port, stays 0."""
    port = settings.metrics_port and min(settings.metrics_port + port_offset, 65_535)
    return settings.model_copy(update={"metrics_port": port})


def _make_metrics_environment(settings: Settings) -> Mapping[str, str]:
    port = settings.metrics_port
    return {} if port is None else {"PAGEWARDEN_METRICS_PORT": str(port)}


def make_url(host: str, port: int) -> str:
    """Return the URL of a server, with IPv6 addresses in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def require_free_port(url: str) -> None:
    """Raise `LocalStackError` if the port of the URL is in use."""
    target = urlsplit(url)
    try:
        (family, kind, *_, address), *_ = socket.getaddrinfo(
            target.hostname, target.port or target.scheme, type=socket.SOCK_STREAM
        )
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as exc:
        raise errors.LocalStackError(
            f"cannot listen on {target.netloc}: {exc.strerror}; stop the program that is using "
            "it, or set PAGEWARDEN_LISTEN_PORT or PAGEWARDEN_GPU_SERVICE_URL to another port"
        ) from exc


async def _add_first_admin(
    url: str, server_keys: keys.InstallationKeys, settings: Settings
) -> None:
    """Add an administrator if there are no users; print the password."""
    service = AuthService(url, server_keys, site_url=settings.site_url)
    try:
        password = await service.users.add_first_admin(FIRST_ADMIN)
    finally:
        await service.aclose()
    if password is not None:
        out.print(f"[green]●[/] first administrator: [bold]{FIRST_ADMIN}[/], password")
        out.print(f"      [bold]{password}[/]")
        out.print("  It is not shown again; [bold]pagewarden user reset[/] sets a new one.")


async def _restart_database(local_server: server.LocalServer, stop: asyncio.Event) -> None:
    """Restart the database when it stops."""
    while not stop.is_set():
        if await local_server.address.ping() == pq.Ping.NO_RESPONSE:
            log.warning("database_stopped", action="restarting")
            try:
                await local_server.ensure_running()
            except errors.LocalStackError as exc:
                log.warning("database_restart_failed", error=str(exc))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)


async def _print_urls_when_ready(
    server_url: str, gpu_url: str, stop: asyncio.Event, *, is_serverless: bool
) -> None:
    """Print the URLs once they respond."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, url in (("dashboard and functions", server_url), ("GPU service", gpu_url)):
            if not await _wait_until_ready(client, url, stop):
                return
            out.print(f"[green]●[/] {name} at {url}")
    if is_serverless:
        out.print("[green]●[/] serverless: no worker runs; schedule and events call the functions")
        out.print("  Volumes also need a stage worker: [bold]pagewarden volumes work[/]")
    out.print("Pagewarden is up. Press Ctrl-C to stop it. To upload a file, run:")
    out.print(f"  [bold]{_get_command_name()} upload FILE --wait[/]")


def _get_command_name() -> str:
    """Return the command as it can be run from the current folder."""
    if shutil.which("pagewarden"):
        return "pagewarden"
    return os.path.relpath(Path(sys.executable).parent / "pagewarden")


async def _wait_until_ready(client: httpx.AsyncClient, url: str, stop: asyncio.Event) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    while not stop.is_set():
        with contextlib.suppress(httpx.HTTPError):
            if (await client.get(f"{url.rstrip('/')}/readyz")).is_success:
                return True
        if loop.time() > deadline:
            log.warning("server_not_ready", url=url, after_seconds=READY_SECONDS)
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)
    return False


def _print_line(part: str, line: str) -> None:
    err.print(Text.assemble((f"{part:>9} │ ", "cyan"), Text.from_ansi(line)), soft_wrap=True)


def print_json_line(part: str, line: str) -> None:
    """Print a log line of a program with its name; wrap lines that are not JSON."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if isinstance(event, dict):
        sys.stderr.write(json.dumps({**event, "part": part}, ensure_ascii=False) + "\n")
    elif line:
        log.info("program_output", part=part, line=line)
