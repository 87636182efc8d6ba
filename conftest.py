"""Fixtures and options of all tests: one Postgres per test run, one database per test."""

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
# The duration of an example depends on the load of the machine; failures can be reproduced.
hypothesis.settings.register_profile("untimed", deadline=None, print_blob=True)
hypothesis.settings.load_profile("untimed")


# Tests that start whole programs, a browser, models or servers; make quick omits them.
SLOW = (
    *("client/test_client.py", "functions/test_jobs.py", "functions/test_upload.py"),
    "functions/test_alert_routes.py",
    *("cli/test_deferred.py", "cli/test_docs.py", "relay/test_deploying.py"),
    *("database/test_migrations.py", "database/test_upgrades.py"),
    *("chaos", "dashboard", "gpu_service", "local", "volumes", "docs/test_tutorial.py"),
    *(f"cli/test_{name}.py" for name in ("check", "cli", "import", "ocr", "upload", "user")),
    *(f"database/test_{name}.py" for name in ("bootstrap", "local_server", "supabase_cli")),
    *(f"documents/test_{name}.py" for name in ("gpu_reader", "reader", "work_command")),
    *(f"storage/test_{name}.py" for name in ("contract", "dropbox", "memory", "s3")),
    *(f"functions/test_{name}.py" for name in ("end_to_end", "exports", "injection", "openapi")),
    *(f"functions/test_{name}.py" for name in ("pubsub", "serving", "workers")),
    *("telemetry/test_two_programs.py", "pool/test_programs.py", "checks/test_check.py"),
    *(f"ocr/test_{name}.py" for name in ("cascade", "fuzz", "hostile", "pdf", "page_image")),
    *(f"ocr/test_{name}.py" for name in ("rapid", "reader", "sandbox", "tesseract")),
    *("ocr/test_gpu_client.py", "ocr/test_orientation.py"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options."""
    parser.addoption(
        "--server-bin",
        type=Path,
        metavar="DIR",
        help="folder of the programs of another Postgres server",
    )
    parser.addoption(
        "--clock",
        choices=list(clock.BOUNDARIES),
        help="start every test just before the end of such a period; needs scripts/clock-test",
    )
    parser.addoption(
        "--fail-on-skip", action="store_true", help="count a skipped test as a failure"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Omit long tests and tests of benchmarks by default; choose the folder of the test server."""
    config.option.markexpr = config.option.markexpr or "not long and not bench"
    # A shell's background jobs ignore SIGINT, and programs started by tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Not in pytest's own folder, which is inaccessible to the account of the server.
    home = Path(tempfile.gettempdir()) / f"pagewarden-tests-{uuid.uuid4().hex[:12]}"
    config.stash[_HOME] = Path(getattr(config, "workerinput", {}).get("home", home))


@pytest.hookimpl(tryfirst=True)  # before tests are selected by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests and tests of benchmarks."""
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
    """Share one server between all processes of a parallel run."""
    node.workerinput["home"] = str(node.config.stash[_HOME])


@pytest.fixture(autouse=True)
def _log_to_standard_error() -> Iterator[None]:
    """Log to the real standard error, which is not captured as output of commands."""
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.__stderr__))
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
async def _wait_for_threads() -> AsyncIterator[None]:
    """Wait for threads of a test: a command that ends later would restore an old environment."""
    loop, executor = asyncio.get_running_loop(), ThreadPoolExecutor()
    loop.set_default_executor(executor)
    yield
    loop.set_default_executor(ThreadPoolExecutor())
    await asyncio.to_thread(executor.shutdown)


@pytest.fixture(autouse=True, scope="session")
def _check_types_of_results() -> Iterator[None]:
    """Check the types of all results of database calls, also those that no test examines."""
    with pytest.MonkeyPatch.context() as patch:
        answers.install(patch)
        yield


@pytest.fixture(scope="session")
def _clock(pytestconfig: pytest.Config) -> clock.Clock | None:
    boundary = pytestconfig.option.clock
    return clock.Clock.from_boundary(boundary) if boundary else None


@pytest.fixture(autouse=True)
def _set_clock(_clock: clock.Clock | None, request: pytest.FixtureRequest) -> None:
    """Set the clock if the option --clock is given."""
    if _clock is not None:
        _clock.set_for(request.node.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with skipped tests if the option --fail-on-skip is given."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.fail_on_skip and reporter and reporter.stats.get("skipped"):
        reporter.ensure_newline()
        reporter.write_line("tests were skipped, and --fail-on-skip is given", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder of the test server at the end of the run."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_HOME], ignore_errors=True)


@pytest.fixture(scope="session")
async def local_server(
    pytestconfig: pytest.Config,
    _clock: clock.Clock | None,  # set before the server starts
) -> AsyncIterator[server.LocalServer]:
    """Run the server that all tests share; tests must not restart it."""
    home, programs = pytestconfig.stash[_HOME], pytestconfig.option.server_bin
    async with server.open_server(home, bin_dir=programs, durable=False) as local:
        yield local


@pytest.fixture(scope="session")
async def bare_template(local_server: server.LocalServer) -> str:
    """Prepare a database as Supabase provides it, before any migration."""
    await databases.prepare_template(local_server, databases.BARE)
    return databases.BARE


@pytest.fixture(scope="session")
async def migrated_template(local_server: server.LocalServer, bare_template: str) -> str:
    """Prepare a database with all migrations applied."""
    assert bare_template
    await databases.prepare_template(local_server, databases.MIGRATED)
    return databases.MIGRATED


@pytest.fixture
async def bare_database(
    local_server: server.LocalServer, bare_template: str
) -> AsyncIterator[databases.Database]:
    """Provide a separate database without migrations."""
    async with databases.open_clone(local_server, bare_template) as database:
        yield database


@pytest.fixture(scope="session")
async def database_pool(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[database_pool_module.Pool]:
    """Open the pool of databases of this process."""
    pool = database_pool_module.Pool(local_server, migrated_template)
    yield pool
    await pool.aclose()


@pytest.fixture
async def database(
    database_pool: database_pool_module.Pool, request: pytest.FixtureRequest
) -> AsyncIterator[databases.Database]:
    """Provide a migrated database for exclusive use."""
    is_fresh = request.node.get_closest_marker("fresh") is not None
    async with database_pool.borrow(fresh=is_fresh) as database:
        yield database
