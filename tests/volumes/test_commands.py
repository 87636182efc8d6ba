"""pagewarden volumes: order, look, re-run, cancel, export; and programs that work."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer import testing

from pagewarden import errors
from pagewarden.cli import volumes
from pagewarden.volumes import jobs, stages
from tests.support import polling
from tests.volumes import fakes, house

if TYPE_CHECKING:
    from pathlib import Path


status = importlib.import_module("pagewarden.cli.volumes.status")  # hidden by its command


class Desk:
    """Somebody who types commands, while orchestrator and workers are in this process."""

    def __init__(self, home: house.House, folder: Path) -> None:
        self.home, self.folder = home, folder

    async def run(self, *words: str, code: int = 0) -> str:
        """Run a command, in a thread as it has a loop of its own; return what it says."""
        runner = testing.CliRunner()
        result = await asyncio.to_thread(runner.invoke, volumes.app, words)
        if isinstance(result.exception, errors.PagewardenError):
            raise result.exception
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    async def json(self, *words: str) -> Any:
        """Run a command that answers in JSON."""
        runner = testing.CliRunner()
        result = await asyncio.to_thread(runner.invoke, volumes.app, [*words, "--json"])
        return json.loads(result.stdout)

    def volume(self, name: str, pages: int = 2) -> Path:
        """Make a folder of images."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        for number in range(pages):
            (folder / f"{number:04}.jpg").write_bytes(b"an image")
        (folder / "notes.txt").write_text("no image")
        return folder


@pytest.fixture
def desk(home: house.House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Have settings that lead to the database and folders of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", home.url)
    monkeypatch.setenv("PAGEWARDEN_VOLUME_INPUT", str(tmp_path / "input"))
    monkeypatch.setenv("PAGEWARDEN_VOLUME_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("COLUMNS", "200")
    return Desk(home, tmp_path / "scans")


async def test_jobs_are_created_from_folders_names_and_lists(desk: Desk, tmp_path: Path) -> None:
    """Images of a folder are copied to where workers find them; other files are not."""
    folder = desk.volume("W1-I1")
    names = tmp_path / "names"
    names.write_text("# more\nW3-I3\n\n")
    words = ("create", str(folder), "W2-I2", "--list", str(names), "--key", "mine")
    wishes = ("k_factor=3", "engine=tesseract", "exports=txt,alto")
    made = await desk.json(*words, *(word for wish in wishes for word in ("--set", wish)))
    assert (made["job_key"], made["volumes"]) == ("mine", 3)
    brought = sorted(path.name for path in (tmp_path / "input" / "W1-I1").iterdir())
    assert brought == ["0000.jpg", "0001.jpg"]
    config = await desk.home.rows("select config from volume_jobs")
    wanted = {"k_factor": 3, "engine": "tesseract", "exports": ["txt", "alto"]}
    assert config == [(wanted,)]


async def test_no_page_of_a_folder_is_left_out_silently(desk: Desk, tmp_path: Path) -> None:
    """Whatever kind of image, in folders below, and named as a Mac does."""
    folder = desk.volume("W1-I1", pages=1)
    (folder / "inner").mkdir()
    (folder / "odd.jpg").mkdir()
    for name in ("0002.jp2", "inner/3.avif", "u\N{COMBINING DIAERESIS}.png", ".hidden.jpg"):
        (folder / name).write_bytes(b"an image")
    await desk.run("create", str(folder))
    there = tmp_path / "input" / "W1-I1"
    brought = [str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()]
    assert sorted(brought) == ["0000.jpg", "0002.jp2", "inner/3.avif", "ü.png"]


async def test_nothing_is_copied_for_a_job_that_is_refused(desk: Desk, tmp_path: Path) -> None:
    """It may be a hundred gigabytes."""
    with pytest.raises(errors.SettingsError, match="nope"):
        await desk.run("create", str(desk.volume("W1-I1")), "--set", "nope=1")
    assert not (tmp_path / "input").exists()


async def test_images_that_only_the_bucket_has_do_not_become_pages(desk: Desk) -> None:
    """A page that was taken out of the folder would stay in the book."""
    folder = desk.volume("W1-I1", pages=3)
    await desk.run("create", str(folder), "--key", "one")
    (folder / "0001.jpg").unlink()
    with pytest.raises(errors.LocalFileError, match=r"not in the folder: 0001.jpg\."):
        await desk.run("create", str(folder), "--key", "two")
    assert await desk.home.rows("select job_key from volume_jobs") == [("one",)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create"], "specify volumes"),
        (["create", "W1"], "W22084-I0886"),
        (["create", "W1-I1", "--set", "nope=1"], "nope"),
        (["create", "W1-I1", "--set", "merge_lines=maybe"], "merge_lines"),
        (["create", "W1-I1", "--set", "nothing"], "KEY=VALUE"),
        (["create", "W1-I1", "--key", "a/b"], "letters, digits"),
        (["create", "empty-I1"], "has no images"),
        (["status", "nope"], "there is no job nope"),
        (["rerun", "nope", "ocr"], "there is no job nope"),
        (["rerun", "nope", "rcr"], "unknown stage"),
        (["cancel", "nope"], "there is no job nope"),
        (["status", "--wait"], "--wait requires a job"),
        (["list", "nope"], "there is no job nope"),
        (["list", "nope", "--stage", "rcr"], "unknown stage"),
        (["list", "nope", "--status", "lost"], "unknown status"),
        (["history", "nope", "W1-I1"], "there is no job nope"),
        (["history", "nope", "W1"], "W22084-I0886"),
        (["work", "--stage", "rcr"], "unknown stage"),
        (["work", "--model", "model.onnx"], "--stage"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
async def test_invalid_arguments_are_refused(
    desk: Desk, tmp_path: Path, words: list[str], said: str
) -> None:
    """In one line, before anything is changed."""
    (tmp_path / "empty-I1").mkdir()
    (tmp_path / "model.onnx").write_bytes(b"a model")
    try:
        output = await desk.run(*words, code=2)
    except errors.PagewardenError as exc:
        output = str(exc)
    assert said in output
    assert await desk.home.rows("select id from volume_jobs") == []


async def test_a_key_that_is_taken_is_told(desk: Desk) -> None:
    """With the option that chooses another."""
    await desk.run("create", "W1-I1", "--key", "mine")
    with pytest.raises(errors.InvalidArgument, match="--key"):
        await desk.run("create", "W1-I1", "--key", "mine")


async def test_the_way_of_a_job_is_seen(desk: Desk) -> None:
    """From all jobs to one, with its stages; by key or number."""
    assert "there are no volume jobs" in await desk.run("status")
    made = await desk.json("create", "W1-I1", "W1-I2", "--key", "mine")
    assert "mine" in await desk.run("status")
    shown = await desk.run("status", "mine")
    assert "0 of 2 volumes done" in shown
    assert "No orchestrator" in shown
    await desk.home.work(desk.home.worker())
    seen = await desk.json("status", str(made["job_id"]))
    assert (seen["job"]["done"], seen["job"]["status"]) == (2, "completed")
    assert [count["passed"] for count in seen["job"]["stages"]] == [2, 2, 2, 2]
    watched = await desk.run("status", "mine", "--watch")
    assert "2 of 2 volumes done" in watched
    assert all(stage in watched for stage in stages.STAGES)


async def test_failed_volumes_are_shown_and_tried_again(desk: Desk) -> None:
    """With what went wrong; retry lets them go on."""
    await desk.run("create", "W1-I1", "W1-I2", "--key", "mine")
    broken = errors.DamagedFile("page 3 is damaged")
    await desk.home.work(desk.home.worker(fakes.failing(broken, times=1)))
    shown = await desk.run("status", "mine")
    assert "page 3 is damaged" in shown
    assert "pagewarden volumes retry mine" in shown
    assert "rerunning from the failed stage: 1 volume" in await desk.run("retry", "mine")
    await desk.home.work(desk.home.worker())
    assert await desk.home.tasks("current_stage") == [("done",)] * 2


async def test_volumes_of_a_job_are_listed(desk: Desk) -> None:
    """All of them, or those of a stage or status; failed ones first, with what came out."""
    await desk.run("create", "W1-I1", "W1-I2", "--key", "mine")
    broken = errors.DamagedFile("page 3 is damaged")
    await desk.home.work(desk.home.worker(fakes.failing(broken, times=1)))
    rows = await desk.json("list", "mine")
    assert [(row["bdrc_i_id"], row["stage"], row["status"]) for row in rows] == [
        ("I1", "ocr", "failed"),
        ("I2", "done", "done"),
    ]
    assert rows[1]["result"]["total_images"] == 4
    shown = await desk.run("list", "mine")
    assert all(word in shown for word in ("W1-I1", "failed", "1 of 1", "W1-I2", "4 of 4"))
    assert "W1-I1" not in await desk.run("list", "mine", "--stage", "done")
    assert "W1-I2" not in await desk.run("list", "mine", "--status", "failed")
    assert "no volumes match" in await desk.run("list", "mine", "--stage", "reduce")


async def test_history_lists_all_attempts(desk: Desk) -> None:
    """Newest first: who had it, how that ended, and why."""
    await desk.run("create", "W1-I1", "--key", "mine")
    assert "no attempts" in await desk.run("history", "mine", "W1-I1")
    await desk.home.orchestrator.step()
    await desk.home.worker(fakes.away, name="first").process_next(asyncio.Event())
    await desk.home.show_messages()
    await desk.home.worker(name="second").process_next(asyncio.Event())
    turns = await desk.json("history", "mine", "W1-I1")
    assert [(turn["worker_id"], turn["outcome"]) for turn in turns] == [
        ("second", "done"),
        ("first", "outage"),
    ]
    shown = await desk.run("history", "mine", "W1-I1")
    assert all(word in shown for word in ("second", "first", "the bucket cannot be reached"))
    with pytest.raises(errors.InvalidArgument, match="no volume W9-I9"):
        await desk.run("history", "mine", "W9-I9")


async def test_wait_ends_with_the_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with the job; what is shown then is its end."""
    monkeypatch.setattr(status, "POLL_SECONDS", 0.05)
    async with house.start_programs(desk.home):
        shown = await desk.run("create", "W1-I1", "W1-I2", "--key", "mine", "--wait")
    assert "2 of 2 volumes done" in shown
    assert "2 of 2 volumes done" in await desk.run("status", "mine", "--wait")
    seen = await desk.json("status", "mine", "--wait")
    assert seen["job"]["status"] == "completed"


async def test_wait_reports_failure_by_exit_code(
    desk: Desk,
) -> None:
    """Whether it failed or was cancelled; failed volumes are shown."""
    await desk.run("create", "W1-I1", "--key", "mine")
    broken = errors.DamagedFile("page 3 is damaged")
    await desk.home.work(desk.home.worker(fakes.failing(broken, times=1)))
    assert "page 3 is damaged" in await desk.run("status", "mine", "--wait", code=1)
    await desk.run("retry", "mine")
    await desk.run("cancel", "mine")
    assert "cancelled" in await desk.run("status", "mine", "--wait", code=1)


async def test_wait_prints_each_notice_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, not every time it looks."""
    monkeypatch.setattr(status, "POLL_SECONDS", 0.01)
    await desk.run("create", "W1-I1", "--key", "mine")
    await desk.home.orchestrator.step()
    await desk.home.worker(fakes.away).process_next(asyncio.Event())
    looks: list[jobs.JobBoard] = []
    board = jobs.JobRepository.get_board

    async def looking(found: jobs.JobRepository, job_id: int) -> jobs.JobBoard:
        if len(looks) == 3:
            await found.cancel(job_id)
        looks.append(await board(found, job_id))
        return looks[-1]

    monkeypatch.setattr(jobs.JobRepository, "get_board", looking)
    shown = await desk.run("status", "mine", "--wait", code=1)
    assert shown.count("the bucket cannot be reached") == 1


async def test_what_volumes_wait_for_is_told(desk: Desk) -> None:
    """A bucket that cannot be reached costs no attempts, and is not kept secret."""
    await desk.run("create", "W1-I1", "--key", "mine")
    await desk.home.orchestrator.step()
    await desk.home.worker(fakes.away).process_next(asyncio.Event())
    assert "the bucket cannot be reached" in await desk.run("status", "mine")


async def test_a_stage_of_one_volume_is_done_again(desk: Desk) -> None:
    """The other volume, and the stages before, are left alone: their files are the same."""
    await desk.run("create", "W1-I1", "W1-I2", "--key", "mine")
    await desk.home.work(desk.home.worker())
    before = {path: path.stat().st_mtime_ns for path in desk.home.output.rglob("*.parquet")}
    said = await desk.run("rerun", "mine", "ocr", "W1-I2", "--set", "engine=tesseract")
    assert "rerunning from ocr: 1 volume" in said
    await desk.home.work(desk.home.worker())
    changed = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert {(path.parts[-3], path.parts[-2]) for path in changed} == {
        ("W1-I2", "ocr"),
        ("W1-I2", "reduce"),
    }
    with pytest.raises(errors.InvalidArgument, match="no volume W9-I9"):
        await desk.run("rerun", "mine", "ocr", "W9-I9")


@pytest.mark.parametrize(
    ("stage", "change", "said"),
    [
        ("ocr", "engine=tesserakt", "unknown engine 'tesserakt'"),
        ("ocr", "k_factor=99", "less than or equal to 10"),
        ("ocr", "k_factor=3", "only line_extraction uses it"),
        ("reduce", "engine=rapid", "only ocr uses it"),
        ("ocr", "language=heb", "the text direction"),
    ],
)
async def test_a_config_that_a_stage_would_not_follow_is_refused(
    desk: Desk, stage: str, change: str, said: str
) -> None:
    """Before anything is done again; the job keeps its own."""
    await desk.run("create", "W1-I1", "--key", "mine", "--set", "language=deu")
    await desk.home.work(desk.home.worker())
    with pytest.raises(errors.SettingsError, match=said):
        await desk.run("rerun", "mine", stage, "--set", change)
    assert await desk.home.tasks("current_stage") == [("done",)]
    assert await desk.home.rows("select config from volume_jobs") == [({"language": "deu"},)]


async def test_a_config_is_not_changed_under_volumes_that_go_on(desk: Desk) -> None:
    """It is that of the whole job."""
    await desk.run("create", "W1-I1", "W1-I2", "--key", "mine")
    await desk.home.orchestrator.step()
    with pytest.raises(errors.InvalidArgument, match="1 other volumes are still running"):
        await desk.run("rerun", "mine", "line_detection", "W1-I1", "--set", "use_tps=true")
    said = await desk.run("rerun", "mine", "line_detection", "--set", "use_tps=true")
    assert "rerunning from line_detection: 2 volumes" in said


async def test_a_job_is_cancelled_and_goes_on(desk: Desk) -> None:
    """Retry resumes it."""
    await desk.run("create", "W1-I1", "--key", "mine")
    await desk.home.orchestrator.step()
    assert "unfinished: 1 volume" in await desk.run("cancel", "mine", "--reason", "why not")
    assert "cancelled" in await desk.run("status", "mine")
    await desk.run("retry", "mine")
    await desk.home.work(desk.home.worker())
    assert await desk.home.tasks("current_stage") == [("done",)]


async def test_artifacts_are_copied_here(desk: Desk, tmp_path: Path) -> None:
    """Of all volumes, or of those that are named."""
    await desk.run("create", "W1-I1", "W1-I2", "--key", "mine")
    await desk.home.work(desk.home.worker())
    said = await desk.run("export", "mine", "W1-I1", "-o", str(tmp_path / "here"))
    assert " in " in said
    copied = [
        path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*.parquet")
    ]
    assert sorted(map(str, copied)) == [
        "W1-I1/line_detection/line_detection.parquet",
        "W1-I1/line_extraction/line_images.parquet",
        "W1-I1/ocr/ocr_results.parquet",
    ]
    await desk.run("export", "mine", "-o", str(tmp_path / "all"))
    assert len(list((tmp_path / "all").rglob("*.parquet"))) == 6


async def test_programs_run_until_they_are_told_to_stop(desk: Desk) -> None:
    """An orchestrator and a worker of one stage, each a process; both end when told to."""
    await desk.run("create", "W1-I1", "--key", "mine")
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pagewarden", "volumes", *words,
            env=os.environ | {"PAGEWARDEN_DATABASE_URL": desk.home.worker_url},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )
        for words in (["orchestrate"], ["work", "--stage", "reduce"])
    ]  # fmt: skip

    async def are_there() -> bool:
        published = await desk.home.tasks("current_stage") == [("line_detection",)]
        return published and desk.home.output.is_dir()  # which a worker makes when it begins

    try:
        await polling.wait_until(are_there)
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
    assert [await process.wait() for process in started] == [0, 0]
    await desk.run("orchestrate", "--once")
