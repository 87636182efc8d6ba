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
    samples: Sequence[contest.Sample], claims: Sequence[contest.Claims] = ()
) -> report.Report:
    batches = sorted({sample.batch for sample in samples})
    return report.Report(_SERVER, contest.Plan(batches=batches), samples, claims)


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(queue.command)
    return app


def test_a_quick_run_measures_everybody_and_cleans_up(
    local_server: server.LocalServer, tmp_path: Path
) -> None:
    """Every contestant completes every job exactly once, and no database is left behind."""
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


async def test_jobs_without_a_result_are_noticed(local_server: server.LocalServer) -> None:
    """What was enqueued and never worked is counted as missing."""
    url = local_server.url(cluster.SUPERUSER)
    pgmq = contestants.get("pgmq")
    await databases.make_template(url, "unworked", pgmq.prepare)
    try:
        fresh = await databases.make_fresh(url, "unworked")
        async with pgmq.producer(fresh) as enqueue:
            assert len(await enqueue(3)) == 3

        problem = (await pgmq.tally(fresh)).problem(3)

        assert problem == "3 of 3 jobs have no result"
    finally:
        await databases.drop(url, "unworked")


async def test_a_worker_that_dies_fails_the_round_and_says_why(
    local_server: server.LocalServer,
) -> None:
    """In a database without pgmq the processes give up, and their reason is handed on."""
    url = local_server.url(cluster.SUPERUSER)
    with pytest.raises(base.RoundFailedError, match="pgmq"):
        async with load.start_crew("pgmq", url, batch=1, workers=1, producers=1) as team:
            await team.perform(contest.QUICK.warm_up(1))


@pytest.mark.parametrize(
    ("tally", "words"),
    [
        (base.Tally(5, 5, 5), None),
        (base.Tally(5, 4, 4), "1 of 5 jobs have no result"),
        (base.Tally(5, 7, 5), "2 results too many for 5 jobs"),
        (base.Tally(4, 5, 5), "1 of 5 jobs are not marked as complete"),
    ],
)
def test_only_one_result_for_each_job_is_right(tally: base.Tally, words: str | None) -> None:
    """Missing and double results and unfinished jobs are each named."""
    assert tally.problem(5) == words


def test_a_missing_peer_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without one of the peers nothing is measured."""
    monkeypatch.setitem(sys.modules, "pgqueuer", None)

    with pytest.raises(errors.SettingsError, match=r"pgqueuer; .*pip install pagewarden\[bench\]"):
        contestants.require()


def test_everybody_goes_first_equally_often() -> None:
    """The order rotates from one repetition to the next."""
    plan = contest.Plan(batches=(1,), repeat=3)

    rounds = [name for _, name in plan.rounds(("a", "b", "c"))]

    assert rounds == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_paced_producers_send_at_the_rate_in_turn() -> None:
    """Two producers of ten jobs each half a second, a quarter apart, make forty a second."""
    orders = dataclasses.replace(contest.Plan(), rate=40.0).paced(10)

    assert [(order.delay, order.interval) for order in orders] == [(0.0, 0.5), (0.25, 0.5)]


def test_the_lead_is_over_the_best_peer_by_medians() -> None:
    """One lucky round of a peer does not decide, nor does one of ours."""
    rates = {"pagewarden": (200, 210, 900), "pgmq": (100, 105, 400), "pgqueuer": (50, 60, 70)}
    samples = [_sample(name, 1, rate) for name, three in rates.items() for rate in three]

    assert _report(samples).lead(1) == (2.0, "pgmq")


def test_a_failed_round_does_not_count_and_is_shown() -> None:
    """A fast round that lost a result helps nobody."""
    samples = [
        _sample("pagewarden", 1, 100),
        _sample("pagewarden", 1, 900, "1 of 5 jobs have no result"),
        _sample("pgmq", 1, 50),
    ]
    found = _report(samples)

    assert found.lead(1) == (2.0, "pgmq")
    assert "pagewarden, batch 1: 1 of 5 jobs have no result" in report.verdict(found).plain


def test_behind_at_one_batch_size_is_not_ahead() -> None:
    """Being ahead means at every batch size."""
    samples = [
        _sample("pagewarden", 1, 300),
        _sample("pgmq", 1, 100),
        _sample("pagewarden", 10, 90),
        _sample("pgmq", 10, 100),
    ]

    words = report.verdict(_report(samples)).plain

    assert "Batch 1: 3.00 times the best peer (pgmq)." in words
    assert "Batch 10: 0.90 times the best peer (pgmq)." in words
    assert "Not ahead of every peer at every batch size." in words


def test_growth_compares_the_largest_backlog_with_the_smallest() -> None:
    """The order in which they were measured does not matter."""
    claims = [contest.Claims(1_000_000, 10, 1.0, 3.0), contest.Claims(1_000, 10, 1.0, 2.0)]

    found = _report([_sample("pagewarden", 1, 1)], claims)

    assert found.growth == 1.5
    assert "grows 1.50 times (allowed: less than 1.5)" in report.verdict(found).plain


def test_a_contestant_that_only_failed_is_shown_as_failed() -> None:
    """It has no figures to print."""
    samples = [_sample("pagewarden", 1, 100), _sample("pgmq", 1, 0, "it died")]
    printed = io.StringIO()

    consoles.Console(file=printed, width=100).print(report.contest_table(_report(samples)))

    assert _report(samples).lead(1) is None
    assert "failed" in printed.getvalue()
