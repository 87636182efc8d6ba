"""The checks and figures of `python -m benchmarks chaos`, on made-up events."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.chaos import documents, event_log, faults, invariants, traffic
from benchmarks.chaos import plan as plans
from benchmarks.chaos import report as reports
from benchmarks.chaos import run as runs

PLAN = plans.Plan(seed=1, slow_share=0.1)
WORKER = f"{socket.gethostname()}-7-1"
OTHER = f"{socket.gethostname()}-8-1"
SLACK = 25.0


def _event(kind: str, at: float, worker: str = WORKER, **more: Any) -> invariants.Event:
    event = invariants.Event("d", kind, "processing", worker, "chaos-8", 1, 0, 0, True, at)
    return dataclasses.replace(event, **more)


@pytest.fixture
def journal(tmp_path: Path) -> event_log.Journal:
    """An empty journal."""
    return event_log.Journal(tmp_path / "journal.log")


# Rescues of healthy workers ------------------------------------------------------------------


RESCUED = [_event("claimed", 100.0), _event("rescued", 125.0)]


def _find_wrongful(events: list[invariants.Event], journal: event_log.Journal) -> list[str | None]:
    return [
        violation.document for violation in invariants.find_wrongful_rescues(events, journal, SLACK)
    ]


def test_rescue_from_healthy_worker_is_violation(journal: event_log.Journal) -> None:
    """It was neither killed nor suspended nor disconnected."""
    assert _find_wrongful(RESCUED, journal) == ["d"]


def test_rescue_by_hac_is_no_violation(journal: event_log.Journal) -> None:
    """Only programs are checked."""
    by_hac = dataclasses.replace(RESCUED[1], caller=traffic.APPLICATION)

    assert _find_wrongful([RESCUED[0], by_hac], journal) == []


@pytest.mark.parametrize(("at", "wrongful"), [(110.0, []), (126.0, ["d"])])
def test_rescue_after_death_is_no_violation(
    journal: event_log.Journal, at: float, wrongful: list[str]
) -> None:
    """The worker must have been dead before the rescue."""
    journal.deaths[7] = event_log.Death("worker", at, ordered=True)

    assert _find_wrongful(RESCUED, journal) == wrongful


@pytest.mark.parametrize(
    ("begin", "end", "wrongful"), [(101.0, 120.0, []), (50.0, 99.0, ["d"]), (126.0, 150.0, ["d"])]
)
def test_rescue_of_suspended_worker_is_no_violation(
    journal: event_log.Journal, begin: float, end: float, wrongful: list[str]
) -> None:
    """It must have been suspended during the lock."""
    journal.suspensions[7].append(event_log.Span(begin, end))

    assert _find_wrongful(RESCUED, journal) == wrongful


@pytest.mark.parametrize(("had_heartbeat", "wrongful"), [(False, []), (True, ["d"])])
def test_rescue_after_cut_connection_is_no_violation_without_heartbeat(
    journal: event_log.Journal, had_heartbeat: bool, wrongful: list[str]
) -> None:
    """A worker that has sent a heartbeat knows of its claim."""
    journal.cuts.append(100.5)
    events = [RESCUED[0], dataclasses.replace(RESCUED[1], had_heartbeat=had_heartbeat)]

    assert _find_wrongful(events, journal) == wrongful


# Figures -------------------------------------------------------------------------------------


def test_recoveries_during_outages_are_counted_separately(
    journal: event_log.Journal,
) -> None:
    """Recovery times count from the death of the worker."""
    journal.deaths[7] = event_log.Death("worker", 110.0, ordered=True)
    journal.deaths[8] = event_log.Death("worker", 200.0, ordered=True)
    journal.outages.append(event_log.Span(190.0, 195.0))
    events = [
        *RESCUED,
        _event("claimed", 126.0, OTHER),
        _event("rescued", 222.0, OTHER),
    ]

    regular, in_outages = runs.measure_recoveries(
        list(invariants.pair_claims(events)), journal, grace=SLACK
    )

    assert regular == [15.0]
    assert in_outages == [22.0]


def test_wasted_work_is_share_of_all_claims() -> None:
    """Rescues and releases waste work; failures do not."""
    ends = ["completed", "failed", "rescued", "released"]
    events = itertools.chain.from_iterable(
        (_event("claimed", n, document_id=str(n)), _event(end, n + 0.5, document_id=str(n)))
        for n, end in enumerate(ends)
    )

    claims = runs.count_claims(invariants.pair_claims(events), pages=10, pages_again=0)

    assert claims.ends == dict.fromkeys(ends, 1)
    assert claims.wasted == 0.5


def test_distribution_has_median_p99_and_maximum() -> None:
    """Without values, all are 0."""
    assert runs.Distribution.of([]) == runs.Distribution(0, 0.0, 0.0, 0.0)
    assert runs.Distribution.of([float(n) for n in range(101)]) == runs.Distribution(
        101, 50, 99, 100
    )


# Documents and plans -------------------------------------------------------------------------


def _generate(plan: plans.Plan, count: int = 300) -> list[documents.SampleFile]:
    generator = documents.DocumentGenerator(plan)
    lanes = itertools.islice(itertools.cycle(plans.LANES), count)
    return [file for lane in lanes for file in generator.generate(lane)]


def test_every_page_has_its_own_text() -> None:
    """So a page in the wrong document is detected."""
    files = _generate(PLAN)
    texts = [text for file in files for text in file.texts or ()]

    assert len(texts) == len(set(texts)) > 300
    assert len({file.name for file in files}) == len(files)
    assert {file.is_slow for file in files} == {True, False}
    assert any(file.texts is None and not file.is_rejected for file in files)
    assert any(file.is_rejected for file in files)


def test_seed_determines_documents_and_faults() -> None:
    """Another seed gives others."""

    def texts(plan: plans.Plan) -> list[tuple[str, ...] | None]:
        return [file.texts for file in _generate(plan)]

    def scheduled(plan: plans.Plan) -> list[tuple[str, float]]:
        return list(itertools.islice(faults.generate_schedule(plan), 50))

    other = dataclasses.replace(PLAN, seed=2)

    assert texts(PLAN) == texts(PLAN) != texts(other)
    assert scheduled(PLAN) == scheduled(PLAN) != scheduled(other)


def test_every_planned_fault_is_implemented() -> None:
    """The plan and the fault injector have the same names."""
    known = set(
        re.findall(r'^            "([^"]+)": ', Path(faults.__file__).read_text(), re.MULTILINE)
    )

    assert known == set(plans.FAULTS)
    assert set(plans.TARGETED_FAULTS) <= known


def test_unknown_broken_build_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(typer.BadParameter, match="fencing, tokens, heartbeat"):
        reports.make_plan(minutes=1, documents=10, seed=None, broken="the bank")


# Final state ---------------------------------------------------------------------------------

VALID = documents.SampleFile("a.png", b"", ("64x64",))
DAMAGED = documents.SampleFile("b.png", b"", None)
ROW = {
    "id": "d", "name": "a.png", "lane": "image", "case_id": "c", "ocr_status": "completed",
    "reading": 1, "max_attempts": 3, "max_rescues": 3, "is_deleted": False, "dropbox_path": "p",
    "results": 1, "texts": ["64x64"], "pages": 1,
}  # fmt: skip
JOB = {
    "id": "j", "outcome": "SUCCEEDED", "error": None, "statuses": ["completed"],
    "matched": {"a.png": "64x64"},
}  # fmt: skip
COMPLETED = _event("completed", 1.0, status="completed")


class FakeUsers:
    """Users who have requested only what a test says."""

    def __init__(self, **requested: set[str]) -> None:
        self.requested = {
            verb: requested.get(verb.replace(" ", "_"), set())
            for verb in ("cancel", "delete", "abandon", "cancel job")
        }


def _check(
    rows: list[dict[str, Any]],
    *,
    events: list[invariants.Event] | None = None,
    jobs: list[dict[str, Any]] | None = None,
    **requested: set[str],
) -> list[str]:
    submissions = traffic.Submissions({"a.png": VALID, "b.png": DAMAGED})
    if jobs is None:
        submissions.ids.update({row["name"]: row["id"] for row in rows} or {"a.png": "d"})
    else:
        submissions.jobs["j"] = ["a.png"]
    final_check = invariants.FinalCheck(None, submissions, FakeUsers(**requested))  # type: ignore[arg-type]
    found = final_check.check_rows(rows, jobs or [], [COMPLETED] if events is None else events)
    return [violation.rule for violation in found]


def test_expected_final_states_are_no_violations() -> None:
    """Completed once, damaged and given up, or as requested by a user."""
    damaged = ROW | {"name": "b.png", "ocr_status": "dead_letter", "results": 0}
    cancelled = ROW | {"ocr_status": "cancelled", "results": 0}

    assert _check([ROW]) == []
    assert _check([damaged], events=[]) == []
    assert _check([cancelled], events=[], cancel={"d"}) == []
    assert _check([ROW | {"is_deleted": True}], delete={"d"}) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"texts": ["65x64"]}, "every document ends in the expected state"),
        ({"pages": 2}, "every document ends in the expected state"),
        ({"ocr_status": "queued"}, "every document ends in the expected state"),
        ({"ocr_status": "dead_letter"}, "every document ends in the expected state"),
        ({"ocr_status": "cancelled"}, "every document ends in the expected state"),
        ({"name": "b.png"}, "every document ends in the expected state"),
        ({"is_deleted": True}, "documents are deleted only by users"),
        ({"results": 0}, "every completion has one result"),
    ],
)
def test_unexpected_final_state_is_violation(change: dict[str, Any], rule: str) -> None:
    """Each kind has its rule."""
    assert _check([ROW | change]) == [rule]


def test_lost_and_duplicate_uploads_are_violations() -> None:
    """So are documents of rejected uploads."""
    rejected = ROW | {"id": "e", "name": "b.png", "ocr_status": "failed", "results": 0}

    assert _check([], events=[]) == ["an accepted upload is not lost"]
    assert "a repeated upload creates one document" in _check([ROW, ROW | {"id": "e"}])
    submissions = traffic.Submissions({"a.png": VALID, "b.png": DAMAGED}, {"a.png": "d"})
    final_check = invariants.FinalCheck(None, submissions, FakeUsers())  # type: ignore[arg-type]
    rules = [found.rule for found in final_check.check_rows([ROW, rejected], [], [COMPLETED])]
    assert rules == ["a rejected upload leaves no document"]


def test_two_results_of_one_reading_are_violation() -> None:
    """Even with two completions."""
    assert _check([ROW | {"results": 2}], events=[COMPLETED] * 2) == ["no reading has two results"]


@pytest.mark.parametrize(
    ("retries", "rescues", "rules"),
    [(3, 0, []), (0, 4, []), (2, 3, ["a valid document is not given up before its last attempt"])],
)
def test_valid_document_given_up_early_is_violation(
    retries: int, rescues: int, rules: list[str]
) -> None:
    """It takes three failures or four rescues."""
    given_up = _event("failed", 0.5, status="dead_letter", retries=retries, rescues=rescues)

    assert _check([ROW], events=[given_up, COMPLETED]) == rules


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({}, 0),
        ({"outcome": None}, 1),
        ({"statuses": ["completed", "queued"]}, 1),
        ({"matched": None}, 1),
        ({"outcome": "FAILED", "error": "why"}, 1),
        ({"outcome": "CANCELLED"}, 1),
    ],
)
def test_outcome_of_job_must_match_its_images(change: dict[str, Any], rules: int) -> None:
    """Each mismatch is a violation."""
    row = ROW | {"case_id": "j"}
    expected = ["the outcome of a job matches its images"] * rules

    assert _check([row], jobs=[JOB | change]) == expected


# Reports -------------------------------------------------------------------------------------


@pytest.fixture
def result() -> runs.Result:
    """The result of a run with a violation."""
    no_recoveries = runs.Distribution(0, 0.0, 0.0, 0.0)
    return runs.Result(
        plan=dataclasses.replace(PLAN, broken="tokens"),
        violations=[
            invariants.Violation("no reading has two results", "d", "1 reading, 2 results")
        ],
        seconds=60.0, settled_seconds=None, documents=10, jobs=2, statuses={"completed": 10},
        disturbances={"kill a worker": 3}, acts={}, answers={"202": 10}, starts={"pool": 1},
        ended_by_themselves=["pool"], has_disk=False, looks=1, quiet_per_second=10.0,
        fire_per_second=5.0, recoveries=runs.Distribution(2, 20.0, 24.0, 24.0),
        recoveries_in_outages=no_recoveries, work=runs.count_claims([], 0, 0),
    )  # fmt: skip


def test_report_has_command_faults_and_violations(result: runs.Result) -> None:
    """Both as Markdown and as JSON."""
    report = reports.to_markdown(result)

    assert "`python -m benchmarks chaos --minutes 10 --seed 1 --break tokens`" in report
    assert "| no reading has two results | 1 |" in report
    assert "| kill a worker | 3 |" in report
    assert "5.0 (50%)" in report
    values = json.loads(json.dumps(reports.to_json(result)))
    assert values["plan"]["broken"] == "tokens"
    assert values["recoveries"]["p99"] == 24.0
    assert values["violations"][0]["document"] == "d"


# The hook ------------------------------------------------------------------------------------

CLOCK = """
import datetime as dt, os, time, json, pydantic
class Model(pydantic.BaseModel):
    at: dt.datetime
at = Model(at="2020-01-01T00:00:00Z").at
print(json.dumps([
    time.time(), time.time_ns() / 1e9, dt.datetime.now(dt.UTC).timestamp(),
    isinstance(at, dt.datetime), at.year, os.environ["PGAPPNAME"] == f"chaos-{os.getpid()}",
]))
"""


def test_clock_of_each_program_is_shifted() -> None:
    """All clocks of a process agree, and datetimes from C code are still datetimes."""
    hook = Path(documents.__file__).parent / "hook"
    environment = {**os.environ, "PYTHONPATH": str(hook), "CHAOS_SEED": "1"}
    offsets = []
    for _ in range(2):
        before = time.time()
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", CLOCK],
            env=environment, capture_output=True, check=True,
        )  # fmt: skip
        first, second, third, *rest = json.loads(result.stdout)
        assert max(first, second, third) - min(first, second, third) < 5
        assert rest == [True, 2020, True]
        offsets.append(first - before)
    assert abs(offsets[0] - offsets[1]) > 0.001
    assert max(map(abs, offsets)) < 320
