"""The parts of `python -m benchmarks chaos` that judge and count, on events made up for them."""

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
    usual = invariants.Event("d", kind, "processing", worker, "chaos-8", 1, 0, 0, True, at)
    return dataclasses.replace(usual, **more)


@pytest.fixture
def diary(tmp_path: Path) -> event_log.Journal:
    """Nothing has happened yet."""
    return event_log.Journal(tmp_path / "journal.log")


# Who was taken for dead ----------------------------------------------------------------------


RESCUED = [_event("claimed", 100.0), _event("rescued", 125.0)]


def _accused(events: list[invariants.Event], diary: event_log.Journal) -> list[str | None]:
    return [violation.document for violation in invariants.unexcused(events, diary, SLACK)]


def test_a_worker_that_was_well_must_not_lose_its_document(diary: event_log.Journal) -> None:
    """Nobody had killed it, stopped it or cut it off."""
    assert _accused(RESCUED, diary) == ["d"]


def test_hac_may_take_a_document_from_anybody(diary: event_log.Journal) -> None:
    """People know what they do."""
    by_hac = dataclasses.replace(RESCUED[1], caller=traffic.APPLICATION)

    assert _accused([RESCUED[0], by_hac], diary) == []


@pytest.mark.parametrize(("at", "accused"), [(110.0, []), (126.0, ["d"])])
def test_a_death_excuses_what_comes_after_it(
    diary: event_log.Journal, at: float, accused: list[str]
) -> None:
    """It must have been dead already."""
    diary.deaths[7] = event_log.Death("worker", at, ordered=True)

    assert _accused(RESCUED, diary) == accused


@pytest.mark.parametrize(
    ("begin", "end", "accused"), [(101.0, 120.0, []), (50.0, 99.0, ["d"]), (126.0, 150.0, ["d"])]
)
def test_a_stop_excuses_what_it_made_late(
    diary: event_log.Journal, begin: float, end: float, accused: list[str]
) -> None:
    """It must have stood still while the lock ran."""
    diary.stops[7].append(event_log.Span(begin, end))

    assert _accused(RESCUED, diary) == accused


@pytest.mark.parametrize(("was_heard", "accused"), [(False, []), (True, ["d"])])
def test_a_cut_excuses_only_who_never_learned_of_his_claim(
    diary: event_log.Journal, was_heard: bool, accused: list[str]
) -> None:
    """Whoever has sent a heartbeat knows that he has the document."""
    diary.cuts.append(100.5)
    events = [RESCUED[0], dataclasses.replace(RESCUED[1], was_heard=was_heard)]

    assert _accused(events, diary) == accused


# Figures -------------------------------------------------------------------------------------


def test_recoveries_count_from_the_death_and_those_of_outages_apart(
    diary: event_log.Journal,
) -> None:
    """A document claimed by a stopped worker's twin is another story."""
    diary.deaths[7] = event_log.Death("worker", 110.0, ordered=True)
    diary.deaths[8] = event_log.Death("worker", 200.0, ordered=True)
    diary.outages.append(event_log.Span(190.0, 195.0))
    events = [
        *RESCUED,
        _event("claimed", 126.0, OTHER),
        _event("rescued", 222.0, OTHER),
    ]

    usual, apart = runs.recoveries(list(invariants.holds(events)), diary, grace=SLACK)

    assert usual == [15.0]
    assert apart == [22.0]


def test_work_that_was_lost_is_a_share_of_all_claims() -> None:
    """A failure is an answer; a rescue is work for nothing."""
    ends = ["completed", "failed", "rescued", "given back"]
    events = itertools.chain.from_iterable(
        (_event("claimed", n, document_id=str(n)), _event(end, n + 0.5, document_id=str(n)))
        for n, end in enumerate(ends)
    )

    found = runs.work(invariants.holds(events), pages=10, pages_again=0)

    assert found.ends == dict.fromkeys(ends, 1)
    assert found.wasted == 0.5


def test_a_spread_of_nothing_is_nothing() -> None:
    """And of hundred the last but one is the last hundredth."""
    assert runs.Spread.of([]) == runs.Spread(0, 0.0, 0.0, 0.0)
    assert runs.Spread.of([float(n) for n in range(101)]) == runs.Spread(101, 50, 99, 100)


# Documents and plans -------------------------------------------------------------------------


def _made(plan: plans.Plan, count: int = 300) -> list[documents.Made]:
    maker = documents.Maker(plan)
    lanes = itertools.islice(itertools.cycle(plans.LANES), count)
    return [made for lane in lanes for made in maker.make(lane)]


def test_no_two_pages_read_the_same() -> None:
    """So a page in the wrong document would be seen."""
    made = _made(PLAN)
    texts = [text for one in made for text in one.texts or ()]

    assert len(texts) == len(set(texts)) > 300
    assert len({one.name for one in made}) == len(made)
    assert {one.slow for one in made} == {True, False}
    assert any(one.texts is None and not one.refused for one in made)
    assert any(one.refused for one in made)


def test_a_seed_brings_the_same_documents_and_disturbances() -> None:
    """Another one brings others."""

    def texts(plan: plans.Plan) -> list[tuple[str, ...] | None]:
        return [one.texts for one in _made(plan)]

    def disturbed(plan: plans.Plan) -> list[tuple[str, float]]:
        return list(itertools.islice(faults.schedule(plan), 50))

    other = dataclasses.replace(PLAN, seed=2)

    assert texts(PLAN) == texts(PLAN) != texts(other)
    assert disturbed(PLAN) == disturbed(PLAN) != disturbed(other)


def test_every_disturbance_is_done_some_day() -> None:
    """The plan names nothing that the monkey does not know."""
    known = set(
        re.findall(r'^            "([^"]+)": ', Path(faults.__file__).read_text(), re.MULTILINE)
    )

    assert known == set(plans.DISTURBANCES)
    assert set(plans.AIMED) <= known


def test_what_cannot_be_broken_is_refused() -> None:
    """With what can be."""
    with pytest.raises(typer.BadParameter, match="fencing, tokens, heartbeat"):
        reports.plan(minutes=1, documents=10, seed=None, broken="the bank")


# The end -------------------------------------------------------------------------------------

SOUND = documents.Made("a.png", b"", ("64x64",))
DAMAGED = documents.Made("b.png", b"", None)
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


class Desk:
    """Somebody of HAC who asked for nothing, unless told otherwise."""

    def __init__(self, **asked: set[str]) -> None:
        self.asked = {
            verb: asked.get(verb.replace(" ", "_"), set())
            for verb in ("cancel", "delete", "abandon", "cancel job")
        }


def _verdict(
    rows: list[dict[str, Any]],
    *,
    events: list[invariants.Event] | None = None,
    jobs: list[dict[str, Any]] | None = None,
    **asked: set[str],
) -> list[str]:
    brought = traffic.Brought({"a.png": SOUND, "b.png": DAMAGED})
    if jobs is None:
        brought.ids.update({row["name"]: row["id"] for row in rows} or {"a.png": "d"})
    else:
        brought.jobs["j"] = ["a.png"]
    judge = invariants.Judge(None, brought, Desk(**asked))  # type: ignore[arg-type]
    found = judge.verdict(rows, jobs or [], [COMPLETED] if events is None else events)
    return [violation.rule for violation in found]


def test_a_document_read_once_is_a_rightful_end() -> None:
    """And so is a damaged one that was given up, or what people asked for."""
    damaged = ROW | {"name": "b.png", "ocr_status": "dead_letter", "results": 0}
    cancelled = ROW | {"ocr_status": "cancelled", "results": 0}

    assert _verdict([ROW]) == []
    assert _verdict([damaged], events=[]) == []
    assert _verdict([cancelled], events=[], cancel={"d"}) == []
    assert _verdict([ROW | {"is_deleted": True}], delete={"d"}) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"texts": ["65x64"]}, "every document ends rightly"),
        ({"pages": 2}, "every document ends rightly"),
        ({"ocr_status": "queued"}, "every document ends rightly"),
        ({"ocr_status": "dead_letter"}, "every document ends rightly"),
        ({"ocr_status": "cancelled"}, "every document ends rightly"),
        ({"name": "b.png"}, "every document ends rightly"),
        ({"is_deleted": True}, "only people delete"),
        ({"results": 0}, "every completion has one result"),
    ],
)
def test_a_wrongful_end_is_seen(change: dict[str, Any], rule: str) -> None:
    """Whatever it is, it has its rule."""
    assert _verdict([ROW | change]) == [rule]


def test_what_was_taken_in_must_be_there_and_nothing_else() -> None:
    """Lost, doubled and refused ones are seen."""
    stranger = ROW | {"id": "e", "name": "b.png", "ocr_status": "failed", "results": 0}

    assert _verdict([], events=[]) == ["what was taken in is there"]
    assert "what was sent twice is there once" in _verdict([ROW, ROW | {"id": "e"}])
    brought = traffic.Brought({"a.png": SOUND, "b.png": DAMAGED}, {"a.png": "d"})
    judge = invariants.Judge(None, brought, Desk())  # type: ignore[arg-type]
    rules = [found.rule for found in judge.verdict([ROW, stranger], [], [COMPLETED])]
    assert rules == ["what was refused is not there"]


def test_two_results_of_one_reading_are_seen() -> None:
    """Even if there were two completions for them."""
    assert _verdict([ROW | {"results": 2}], events=[COMPLETED] * 2) == [
        "no reading has two results"
    ]


@pytest.mark.parametrize(
    ("retries", "rescues", "rules"),
    [(3, 0, []), (0, 4, []), (2, 3, ["a sound document has all its attempts"])],
)
def test_a_sound_document_is_not_given_up_early(
    retries: int, rescues: int, rules: list[str]
) -> None:
    """Three failures or four deaths, and not fewer."""
    buried = _event("failed", 0.5, status="dead_letter", retries=retries, rescues=rescues)

    assert _verdict([ROW], events=[buried, COMPLETED]) == rules


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
def test_the_outcome_of_a_job_fits_its_pictures(change: dict[str, Any], rules: int) -> None:
    """What does not fit is named."""
    row = ROW | {"case_id": "j"}
    expected = ["the outcome of a job fits its pictures"] * rules

    assert _verdict([row], jobs=[JOB | change]) == expected


# What is shown -------------------------------------------------------------------------------


@pytest.fixture
def found() -> runs.Found:
    """A run that went badly."""
    nothing = runs.Spread(0, 0.0, 0.0, 0.0)
    return runs.Found(
        plan=dataclasses.replace(PLAN, broken="tokens"),
        violations=[
            invariants.Violation("no reading has two results", "d", "1 reading, 2 results")
        ],
        seconds=60.0, settled_seconds=None, documents=10, jobs=2, statuses={"completed": 10},
        disturbances={"kill a worker": 3}, acts={}, answers={"202": 10}, starts={"pool": 1},
        ended_by_themselves=["pool"], has_disk=False, looks=1, quiet_per_second=10.0,
        fire_per_second=5.0, recoveries=runs.Spread(2, 20.0, 24.0, 24.0),
        recoveries_in_outages=nothing, work=runs.work([], 0, 0),
    )  # fmt: skip


def test_the_report_says_how_to_repeat_the_run_and_what_was_violated(found: runs.Found) -> None:
    """As Markdown for people, as JSON for programs."""
    report = reports.as_markdown(found)

    assert "`python -m benchmarks chaos --minutes 10 --seed 1 --break tokens`" in report
    assert "| no reading has two results | 1 |" in report
    assert "| kill a worker | 3 |" in report
    assert "5.0 (50%)" in report
    told = json.loads(json.dumps(reports.as_json(found)))
    assert told["plan"]["broken"] == "tokens"
    assert told["recoveries"]["p99"] == 24.0
    assert told["violations"][0]["document"] == "d"


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


def test_the_clock_of_each_program_is_wrong_by_another_time() -> None:
    """All its ways to tell the time agree, and what others make is still a time."""
    hook = Path(documents.__file__).parent / "hook"
    environment = {**os.environ, "PYTHONPATH": str(hook), "CHAOS_SEED": "1"}
    offsets = []
    for _ in range(2):
        asked = time.time()
        said = subprocess.run(
            [sys.executable, "-W", "error", "-c", CLOCK],
            env=environment, capture_output=True, check=True,
        )  # fmt: skip
        first, second, third, *rest = json.loads(said.stdout)
        assert max(first, second, third) - min(first, second, third) < 5
        assert rest == [True, 2020, True]
        offsets.append(first - asked)
    assert abs(offsets[0] - offsets[1]) > 0.001
    assert max(map(abs, offsets)) < 320
