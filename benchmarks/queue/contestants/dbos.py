"""DBOS: durable workflows on queues in Postgres, with its own executor.

DBOS stores the result of a workflow in its own table, so there is no separate results table.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dbos
import sqlalchemy

from benchmarks.queue import databases
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


_QUEUE = "bench"
_WORKFLOW = "read"
_VERSION = "1"

_TALLY = """
select
  (select count(*) from dbos.workflow_status where status = 'SUCCESS'),
  count(output), count(distinct workflow_uuid) filter (where output is not null)
from dbos.workflow_output
"""


@dataclass(frozen=True, slots=True)
class DbosQueue:
    """A queue of DBOS."""

    name: str

    async def prepare(self, url: str) -> None:
        """Launch DBOS once, which creates its tables, and register the queue."""
        await asyncio.to_thread(_prepare, url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Enqueue a batch of workflows in one transaction."""
        numbers = itertools.count()
        engine = sqlalchemy.create_engine(_to_sqlalchemy_url(url))
        client = dbos.DBOSClient(system_database_engine=engine)
        options: dbos.EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": _QUEUE,
            "app_version": _VERSION,
        }

        def send(count: int) -> list[base.JobId]:
            with engine.begin() as connection:
                return [
                    client.enqueue_in_transaction(
                        connection, options, json.dumps(base.make_payload(next(numbers)))
                    ).get_workflow_id()
                    for _ in range(count)
                ]

        async def enqueue(count: int) -> Sequence[base.JobId]:
            return await asyncio.to_thread(send, count)

        try:
            yield enqueue
        finally:
            client.destroy()
            engine.dispose()

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Run an executor that dequeues up to `batch` workflows at a time."""
        loop = asyncio.get_running_loop()

        def report(workflow: str) -> None:
            loop.call_soon_threadsafe(record_completed, [workflow])

        app = await asyncio.to_thread(_launch, url, batch)
        _report_outcomes(app, report)
        try:
            await stop.wait()
        finally:
            await asyncio.to_thread(dbos.DBOS.destroy)

    async def tally(self, url: str) -> base.Tally:
        """Count successful workflows, and those with an output."""
        return await databases.tally(url, _TALLY)


def _prepare(url: str) -> None:
    _launch(url, 1)
    dbos.DBOS.destroy()


def _launch(url: str, batch: int) -> dbos.DBOS:
    config: dbos.DBOSConfig = {
        "name": "bench",
        "system_database_url": _to_sqlalchemy_url(url),
        "application_version": _VERSION,
        "log_level": "ERROR",
    }
    app = dbos.DBOS(config=config)

    @dbos.DBOS.workflow(name=_WORKFLOW)
    def read(_: str) -> Any:  # noqa: ANN401
        return base.handle(str(dbos.DBOS.workflow_id))

    dbos.DBOS.launch()
    dbos.DBOS.register_queue(
        _QUEUE,
        worker_concurrency=batch,
        polling_interval_sec=base.IDLE_SECONDS,
        on_conflict="always_update",
    )
    return app


def _report_outcomes(app: dbos.DBOS, report: Any) -> None:  # noqa: ANN401
    """Report each workflow after the commit of its outcome, for which DBOS has no hook."""
    database = app._sys_db  # noqa: SLF001
    update = database.update_workflow_outcome

    def update_and_report(workflow_id: str, *args: Any, **kwargs: Any) -> bool:  # noqa: ANN401
        is_updated: bool = update(workflow_id, *args, **kwargs)
        report(workflow_id)
        return is_updated

    database.update_workflow_outcome = update_and_report  # type: ignore[method-assign]


def _to_sqlalchemy_url(url: str) -> str:
    """Convert a connection string to a URL for SQLAlchemy."""
    parameters = databases.parse_parameters(url)
    return sqlalchemy.URL.create(
        "postgresql+psycopg",
        username=parameters.get("user"),
        password=parameters.get("password"),
        database=parameters["dbname"],
        query={key: parameters[key] for key in ("host", "port") if key in parameters},
    ).render_as_string(hide_password=False)


CONTESTANTS = {"dbos": DbosQueue("dbos")}
