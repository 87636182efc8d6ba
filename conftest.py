"""What every test can use: one Postgres per test run, one database per test."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog

from pagewarden.local import server
from tests.support import answers, clock, databases
from tests.support import database_pool as database_pool_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_HOME = pytest.StashKey[Path]()
# How long an example takes depends on what else this machine does; a failure can be reproduced.
hypothesis.settings.register_profile("untimed", deadline=None, print_blob=True)
hypothesis.settings.load_profile("untimed")


# What starts whole programs, a browser, models or servers: make quick leaves it out.
SLOW = (
    *("client/test_client.py", "functions/test_jobs.py", "functions/test_upload.py"),
    *("command/test_deferred.py", "command/test_docs.py", "relay/test_deploying.py"),
    *("database/test_migrations.py", "database/test_upgrades.py"),
    *("chaos", "dashboard", "gpu", "gpu_service", "local", "volumes", "docs/test_tutorial.py"),
    *(f"command/test_{name}.py" for name in ("check", "cli", "import", "ocr", "upload", "users")),
    *(f"database/test_{name}.py" for name in ("bootstrap", "local_server", "supabase_cli")),
    *(f"documents/test_{name}.py" for name in ("gpu_reader", "store_reader", "work_command")),
    *(f"files/test_{name}.py" for name in ("contract", "dropbox", "memory", "s3")),
    *(f"functions/test_{name}.py" for name in ("end_to_end", "exports", "injection", "openapi")),
    *(f"functions/test_{name}.py" for name in ("pubsub", "serving", "workers")),
    *("telemetry/test_two_programs.py", "pool/test_programs.py", "checks/test_checking.py"),
    *(f"reading/test_{name}.py" for name in ("cascade", "fuzz", "hostile", "pdf", "picturing")),
    *(f"reading/test_{name}.py" for name in ("rapid", "reader", "sandbox", "tesseract", "upright")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our own options."""
    parser.addoption(
        "--server-bin",
        type=Path,
        metavar="DIR",
        help="run on the Postgres server whose programs are in this folder",
    )
    parser.addoption(
        "--clock",
        choices=list(clock.BOUNDARIES),
        help="begin every test just before the end of one; needs scripts/clock-test",
    )
    parser.addoption(
        "--fail-on-skip", action="store_true", help="count a skipped test as a failure"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave out long tests and those of benchmarks; choose the folder of the test server."""
    config.option.markexpr = config.option.markexpr or "not long and not bench"
    # A shell has its background jobs ignore Ctrl-C, and so would every program a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not under pytest's own folder: as root that one is closed to the account of the server.
    home = Path(tempfile.gettempdir()) / f"pagewarden-tests-{uuid.uuid4().hex[:12]}"
    config.stash[_HOME] = Path(getattr(config, "workerinput", {}).get("home", home))


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, and those of benchmarks."""
    root = Path(__file__).parent
    slow = tuple(str(root / "tests" / name) for name in SLOW)
    benchmarks = root / "benchmarks"
    for item in items:
        if str(item.path).startswith(slow):
            item.add_marker("slow")
        if item.path.is_relative_to(benchmarks):
            item.add_marker("bench")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let all processes of a parallel run share one server."""
    node.workerinput["home"] = str(node.config.stash[_HOME])


@pytest.fixture(autouse=True)
def _lines_on_standard_error() -> Iterator[None]:
    """Have servers that run inside of a test write their lines past the commands it types."""
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.__stderr__))
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
async def _threads_end_with_the_test() -> AsyncIterator[None]:
    """Wait for threads that a test left: a command that ends later restores an old environment."""
    loop, own, next_one = asyncio.get_running_loop(), ThreadPoolExecutor(), ThreadPoolExecutor()
    loop.set_default_executor(own)
    yield
    loop.set_default_executor(next_one)
    await asyncio.to_thread(own.shutdown)


@pytest.fixture(autouse=True, scope="session")
def _answers_fit_their_types() -> Iterator[None]:
    """Check every answer of the database, also those that no test looks at."""
    with pytest.MonkeyPatch.context() as patch:
        answers.install(patch)
        yield


@pytest.fixture(scope="session")
def _clock(pytestconfig: pytest.Config) -> clock.Clock | None:
    boundary = pytestconfig.option.clock
    return clock.Clock.of(boundary) if boundary else None


@pytest.fixture(autouse=True)
def _time_of_the_test(_clock: clock.Clock | None, request: pytest.FixtureRequest) -> None:
    """Set the clock, if that was asked for."""
    if _clock is not None:
        _clock.set_for(request.node.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which tests were skipped, if that was asked for."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.fail_on_skip and reporter and reporter.stats.get("skipped"):
        reporter.ensure_newline()
        reporter.write_line("tests were skipped, and --fail-on-skip is given", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the test server's folder once every process is done with it."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_HOME], ignore_errors=True)


@pytest.fixture(scope="session")
async def local_server(
    pytestconfig: pytest.Config,
    _clock: clock.Clock | None,  # before the server starts
) -> AsyncIterator[server.LocalServer]:
    """Run the server that all tests share; nobody may restart it."""
    home, programs = pytestconfig.stash[_HOME], pytestconfig.option.server_bin
    async with server.running(home, bin_dir=programs, durable=False) as local:
        yield local


@pytest.fixture(scope="session")
async def bare_template(local_server: server.LocalServer) -> str:
    """Prepare a database as Supabase hands it out, before any migration."""
    await databases.prepare(local_server, databases.BARE)
    return databases.BARE


@pytest.fixture(scope="session")
async def migrated_template(local_server: server.LocalServer, bare_template: str) -> str:
    """Prepare a database with all migrations applied."""
    assert bare_template
    await databases.prepare(local_server, databases.MIGRATED)
    return databases.MIGRATED


@pytest.fixture
async def bare_database(
    local_server: server.LocalServer, bare_template: str
) -> AsyncIterator[databases.Database]:
    """Give the test a database of its own without migrations."""
    async with databases.cloned(local_server, bare_template) as database:
        yield database


@pytest.fixture(scope="session")
async def database_pool(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[database_pool_module.Pool]:
    """Share the databases of this process."""
    pool = database_pool_module.Pool(local_server, migrated_template)
    yield pool
    await pool.aclose()


@pytest.fixture
async def database(
    database_pool: database_pool_module.Pool, request: pytest.FixtureRequest
) -> AsyncIterator[databases.Database]:
    """Give the test a migrated database that it alone uses meanwhile."""
    is_fresh = request.node.get_closest_marker("fresh") is not None
    async with database_pool.borrow(fresh=is_fresh) as database:
        yield database
