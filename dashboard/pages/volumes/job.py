"""One volume job: a board with its stages, durations, reasons for stalling, and reruns."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from pagewarden import errors
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.dashboard.pages.volumes import access, jobs
from pagewarden.database import answers, tables
from pagewarden.database.rows import ListedVolumeTask, VolumeBoardAnswer, VolumeJobs
from pagewarden.volumes import stages
from pagewarden.volumes.jobs import JobBoard, JobRepository, count_by_stage

CARDS = 8
"""Maximum number of volumes shown per column; the rest are only counted."""

_State = tuple[str, str]

# A volume that is done with a stage waits for the next one.
_COLUMNS: Mapping[str, Sequence[_State]] = MappingProxyType(
    {
        "pending": [("pending", "pending")],
        "line_detection": [("line_detection", "running")],
        "line_extraction": [("line_extraction", "running"), ("line_detection", "done")],
        "ocr": [("ocr", "running"), ("line_extraction", "done")],
        "reduce": [("reduce", "running"), ("ocr", "done")],
        "done": [("done", "done")],
        "failed": [(stage, "failed") for stage in stages.STAGES],
    }
)
# As in private.volume_status_rank: failed volumes come first.
_RANKS = MappingProxyType({"failed": 0, "running": 1, "done": 2, "pending": 3})
_LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StageColumn:
    """A stage with its first volumes; `in_hand` counts volumes claimed by workers."""

    name: str
    volumes: int
    in_hand: int
    cards: Sequence[ListedVolumeTask]


async def read_columns(user: sessions.CurrentUser, answer: VolumeBoardAnswer) -> list[StageColumn]:
    """Return the columns of the board, from the answer of volume_board."""
    counts, job_id = count_by_stage(answer), answers.require_field(answer["job_id"])
    columns = []
    for name, states in _COLUMNS.items():
        state_counts = {state: counts[state] for state in states if state in counts}
        in_hand = answer["in_hand_by_stage"].get(name, 0)
        cards = await _read_cards(user, job_id, state_counts)
        columns.append(StageColumn(name, sum(state_counts.values()), in_hand, cards))
    return columns


async def _read_cards(
    user: sessions.CurrentUser, job_id: int, state_counts: Mapping[_State, int]
) -> list[ListedVolumeTask]:
    cards: list[ListedVolumeTask] = []
    for (stage, status), count in state_counts.items():
        limit = min(count, CARDS - len(cards))
        if limit > 0:
            cards += await user.database.list_volume_tasks(
                job_id=job_id,
                stage=stage,
                status=status,
                # Start at the first volume of this status; the limit ends at the last one.
                after_rank=_RANKS[status] - 1,
                after_id=_LAST_ID,
                limit=limit,
            )
    return cards


# An orchestrator runs every 30 seconds.
_LATE_SECONDS = 120
# New workers have loaded their models by then.
_MAX_WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class StalledStage:
    """A stage with waiting volumes but no worker, and how long the first has waited."""

    stage: str
    volumes: int
    since: str


def is_orchestrator_late(board: JobBoard) -> bool:
    """Tell whether the orchestrator has not run for a long time."""
    if board.status != "running":
        return False
    return board.passed_at is None or _seconds_since(board.passed_at) > _LATE_SECONDS


async def find_stalled_stages(
    user: sessions.CurrentUser, board: JobBoard
) -> Sequence[StalledStage]:
    """Find stages whose volumes have waited for a long time without a worker."""
    if board.status != "running" or board.outage:
        return []
    found = []
    for stage in board.stages:
        if not stage.in_hand and stage.waiting:
            rows = await user.database.select(
                tables.volume_tasks,
                columns="published_at",
                where={
                    "job_id": board.job_id,
                    "current_stage": stage.stage,
                    "status": "running",
                    "token": None,
                },
                order="published_at",
                limit=1,
            )
            found += [
                StalledStage(stage.stage, stage.waiting, row["published_at"])
                for row in rows
                if row["published_at"]
            ]
    return [stage for stage in found if _seconds_since(stage.since) > _MAX_WAIT_SECONDS]


def _seconds_since(timestamp: str) -> float:
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(timestamp)).total_seconds()


router = APIRouter(
    prefix=f"{access.PATH}/{{job_key}}", route_class=route.Route, include_in_schema=False
)

ROWS = 50
_MAX_FOUND = 1000  # works have fewer volumes


class Stage(enum.StrEnum):
    """A stage that can be rerun."""

    LINE_DETECTION = "line_detection"
    LINE_EXTRACTION = "line_extraction"
    OCR = "ocr"
    REDUCE = "reduce"


class Action(enum.StrEnum):
    """Other actions on a job; the values are parts of paths."""

    RETRY = "retry"
    CANCEL = "cancel"


class JobQuery(lists.ListFilter):
    """Position in the table of volumes, volume to search for, and preselected stage to rerun."""

    after_rank: int | None = None
    after_id: int | None = None
    find: str = ""
    again: Stage | None = None


class RerunForm(jobs.SettingsChanges):
    """The form to rerun a stage with changed settings."""

    stage: Stage
    only_failed: bool = False


@router.get("")
async def show_job(
    request: Request, user: sessions.SignedIn, job: access.Job, query: Annotated[JobQuery, Query()]
) -> Response:
    """Show a job, or redirect to the volume that is searched for; htmx reloads a running job."""
    search, is_fragment = query.find.strip(), request.headers.get("HX-Target") == "job"
    if search and not is_fragment and (ref := await access.find_volume(user, job, search)):
        return RedirectResponse(ref.url, 303)
    answer = await user.database.volume_board(job_id=job["id"])
    board = JobBoard.from_answer(answer)
    return rendering.render_page(
        request,
        "volume_job.html",
        is_fragment=is_fragment,
        job=job,
        board=board,
        columns=await read_columns(user, answer),
        stages=stages.STAGES,
        is_open=board.status == "running",
        choices=jobs.CHOICES,
        is_orchestrator_late=is_orchestrator_late(board),
        stalled_stages=await find_stalled_stages(user, board),
        url=access.job_url(job["job_key"]),
        search=search,
        again=query.again,
        found=await access.list_work_volumes(user, job, search, _MAX_FOUND)
        if search and not is_fragment
        else [],
        **await _read_rows(user, job, query),
    )


@router.post("/rerun")
async def rerun(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    job: access.Job,
    form: Annotated[RerunForm, Form()],
) -> Response:
    """Rerun a stage of all volumes or of failed ones."""
    return await rerun_volumes(
        user,
        access.job_url(job["job_key"]),
        job["id"],
        form.stage,
        only_failed=form.only_failed,
        config=form.make_config(job["config"]),
    )


@router.post("/{act}")
async def apply_action(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    job: access.Job,
    action: Annotated[Action, Path(alias="act")],
) -> Response:
    """Cancel the job, resume it, or retry the failed stages of its volumes."""
    url = access.job_url(job["job_key"])
    if action is Action.CANCEL:
        cancelled = await user.database.cancel_volume_job(job_id=job["id"])
        return flash.redirect_with_answer(
            url, cancelled, "The job was cancelled. Finished results are kept."
        )
    if job["status"] == "cancelled":
        answer = await user.database.rerun_volumes(job_id=job["id"])
        return flash.redirect_with_answer(url, answer, "The job was resumed.")
    return await rerun_volumes(user, url, job["id"], None)


async def rerun_volumes(
    user: sessions.CurrentUser,
    path: str,
    job_id: int,
    stage: str | None,
    **options: Any,  # noqa: ANN401  # those of Jobs.rerun
) -> Response:
    """Rerun a stage, or the failed one of each volume, and redirect with the outcome."""
    try:
        number, skipped = await JobRepository(user.database).rerun(job_id, stage, **options)
    except (errors.SettingsError, errors.InvalidArgument, errors.Forbidden) as exc:
        return flash.redirect_with_notice(path, f"Nothing was rerun: {exc}", is_error=True)
    return redirect_with_rerun(path, number, skipped, stage)


def redirect_with_rerun(path: str, number: int, skipped: int, stage: str | None) -> Response:
    """Redirect with the number of volumes that were queued for a stage, and of those skipped."""
    count = flash.format_count(number, "volume")
    message = f"Queued again for {stage or 'the failed stage'}: {count}."
    if not number:
        message = "Nothing was rerun: no volume can be rerun in its current state."
    if skipped:
        skipped_count = flash.format_count(skipped, "volume")
        message += f" Skipped, stage not reached yet: {skipped_count}."
    return flash.redirect_with_notice(path, message, is_error=not number)


async def _read_rows(
    user: sessions.CurrentUser, job: VolumeJobs, query: JobQuery
) -> dict[str, Any]:
    found = await user.database.list_volume_tasks(
        job_id=job["id"],
        after_rank=query.after_rank,
        after_id=query.after_id,
        limit=ROWS + 1,
    )
    url = access.job_url(job["job_key"])

    def make_next_url(last: ListedVolumeTask) -> str:
        return query.url(url, after_rank=last["rank"], after_id=last["task_id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    longest = max((max(row["seconds"].values(), default=0) for row in shown), default=0)
    return {"rows": shown, "next_url": next_url, "longest": longest or 1, "reload": query.url(url)}
