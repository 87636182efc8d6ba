from __future__ import annotations

import dataclasses
import io
import json
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest
import typer
from rich import console as consoles
from typer import testing

from benchmarks import queue
from benchmarks.queue import contest, contestants, databases, load, report
from benchmarks.queue.contestants import base
from pagewarden import errors
from pagewarden.local import cluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pagewarden.local import server

_SERVER = databases.Server(
    "18", {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
)


def _sample(name: str, batch: int, rate: float, problem: str | None = None) -> contest.Sample:
    return contest.Sample(name, batch, 100, rate, p50_ms=1.0, p99_ms=2.0, problem=problem)


def _report(
    samples: Sequence[contest.Sample], claims: Sequence[contest.ClaimTimes] = ()
) -> report.Report:
    batches = sorted({sample.batch for sample in samples})
    return report.Report(_SERVER, contest.Plan(batches=batches), samples, claims)


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(queue.command)
    return app


def test_quick_run_measures_all_contestants_and_drops_its_databases(
    local_server: server.LocalServer, tmp_path: Path
) -> None:
    """Every contestant completes every job exactly once."""
    url, figures = local_server.url(cluster.SUPERUSER), tmp_path / "figures.json"

    done = testing.CliRunner().invoke(
        _app(), ["--quick", "--url", url, "--json", str(figures)], catch_exceptions=False
    )

    written = json.loads(figures.read_text())
    assert done.exit_code == 0, done.output
    assert all(name in done.output for name in contestants.NAMES)
    assert "NOT DURABLE" in done.output
    assert {line["contestant"] for line in written["lines"]} == set(contestants.NAMES)
    assert all(line["jobs_per_second"] > 0 and line["p99_ms"] > 0 for line in written["lines"])
    assert [claims["backlog"] for claims in written["claims"]] == list(
        contest.QUICK_CLAIMS.backlogs
    )
    with psycopg.connect(url) as connection:
        left = connection.execute("select datname from pg_database where datname like 'bench%'")
        assert left.fetchall() == []


async def test_jobs_without_result_are_reported(local_server: server.LocalServer) -> None:
    """Jobs that were enqueued and never processed are missing."""
    url = local_server.url(cluster.SUPERUSER)
    pgmq = contestants.get("pgmq")
    await databases.make_template(url, "unworked", pgmq.prepare)
    try:
        copy = await databases.copy_template(url, "unworked")
        async with pgmq.producer(copy) as enqueue:
            assert len(await enqueue(3)) == 3

        problem = (await pgmq.tally(copy)).problem(3)

        assert problem == "3 of 3 jobs have no result"
    finally:
        await databases.drop(url, "unworked")


async def test_error_of_a_worker_fails_the_round(
    local_server: server.LocalServer,
) -> None:
    """In a database without pgmq the processes fail; the round's error has their message."""
    url = local_server.url(cluster.SUPERUSER)
    with pytest.raises(base.RoundFailedError, match="pgmq"):
        async with load.start_generator("pgmq", url, batch=1, workers=1, producers=1) as generator:
            await generator.run_phase(contest.QUICK.warm_up_tasks(1))


@pytest.mark.parametrize(
    ("tally", "problem"),
    [
        (base.Tally(5, 5, 5), None),
        (base.Tally(5, 4, 4), "1 of 5 jobs have no result"),
        (base.Tally(5, 7, 5), "2 results too many for 5 jobs"),
        (base.Tally(4, 5, 5), "1 of 5 jobs are not marked as complete"),
    ],
)
def test_each_job_needs_exactly_one_result(tally: base.Tally, problem: str | None) -> None:
    """Missing results, duplicate results and incomplete jobs are reported."""
    assert tally.problem(5) == problem


def test_missing_package_is_named_with_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The benchmark does not run without all peers."""
    monkeypatch.setitem(sys.modules, "pgqueuer", None)

    with pytest.raises(errors.SettingsError, match=r"pgqueuer; .*pip install pagewarden\[bench\]"):
        contestants.require_packages()


def test_order_of_contestants_rotates() -> None:
    """Every contestant is first equally often."""
    plan = contest.Plan(batches=(1,), repeat=3)

    rounds = [name for _, name in plan.rounds(("a", "b", "c"))]

    assert rounds == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_paced_producers_alternate() -> None:
    """Two producers send ten jobs every half second, a quarter of a second apart: 40 jobs/s."""
    tasks = dataclasses.replace(contest.Plan(), rate=40.0).paced_tasks(10)

    assert [(task.delay, task.interval) for task in tasks] == [(0.0, 0.5), (0.25, 0.5)]


def test_lead_compares_medians_with_the_best_peer() -> None:
    """Outliers of a peer or of ours do not matter."""
    rates = {"pagewarden": (200, 210, 900), "pgmq": (100, 105, 400), "pgqueuer": (50, 60, 70)}
    samples = [_sample(name, 1, rate) for name, three in rates.items() for rate in three]

    assert _report(samples).lead(1) == (2.0, "pgmq")


def test_failed_round_is_excluded_and_reported() -> None:
    """A fast round with a missing result is not counted."""
    samples = [
        _sample("pagewarden", 1, 100),
        _sample("pagewarden", 1, 900, "1 of 5 jobs have no result"),
        _sample("pgmq", 1, 50),
    ]
    result = _report(samples)

    assert result.lead(1) == (2.0, "pgmq")
    assert "pagewarden, batch 1: 1 of 5 jobs have no result" in report.make_verdict(result).plain


def test_verdict_needs_a_lead_at_every_batch_size() -> None:
    """The verdict is negative if a peer is faster at one batch size."""
    samples = [
        _sample("pagewarden", 1, 300),
        _sample("pgmq", 1, 100),
        _sample("pagewarden", 10, 90),
        _sample("pgmq", 10, 100),
    ]

    verdict = report.make_verdict(_report(samples)).plain

    assert "Batch 1: 3.00 times the best peer (pgmq)." in verdict
    assert "Batch 10: 0.90 times the best peer (pgmq)." in verdict
    assert "Not faster than every peer at every batch size." in verdict


def test_growth_compares_the_largest_backlog_with_the_smallest() -> None:
    """The order of the measurements does not matter."""
    claims = [contest.ClaimTimes(1_000_000, 10, 1.0, 3.0), contest.ClaimTimes(1_000, 10, 1.0, 2.0)]

    result = _report([_sample("pagewarden", 1, 1)], claims)

    assert result.growth == 1.5
    assert "grows by a factor of 1.50 (limit: 1.5)" in report.make_verdict(result).plain


def test_contestant_without_successful_round_is_shown_as_failed() -> None:
    """The table has a row without figures."""
    samples = [_sample("pagewarden", 1, 100), _sample("pgmq", 1, 0, "it died")]
    printed = io.StringIO()

    consoles.Console(file=printed, width=100).print(report.make_contest_table(_report(samples)))

    assert _report(samples).lead(1) is None
    assert "failed" in printed.getvalue()
