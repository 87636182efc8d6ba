"""A volume of a hundred pages, by the commands that people type: on one machine, and over AWS."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import itertools
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest
from PIL import Image

from benchmarks import system as systems
from pagewarden.volumes import stages
from tests.ocr import printed
from tests.support import polling
from tests.volumes import cloud

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.volumes import house

PAGES = 100
NAME = "W1-I1"
OCR = f"jobs/whole/volumes/{NAME}/ocr/ocr_results.parquet"
SECONDS = 1800.0


def _bind(folder: Path) -> None:
    """Lay out pages of a corpus, if there is one, or printed ones."""
    folder.mkdir(parents=True)
    found = sorted(Path(os.environ.get("PAGEWARDEN_CORPUS") or folder).rglob("*.jpg"))
    for number, original in zip(range(PAGES), found, strict=False):
        (folder / f"{number:04}.jpg").write_bytes(original.read_bytes())
    texts = itertools.cycle((printed.ENGLISH, printed.GERMAN))
    for number in range(len(found), PAGES):
        picture = Image.fromarray(printed.page([*next(texts) * 6, f"Page {number}"]).pixels)
        picture.save(folder / f"{number:04}.jpg", quality=90)


async def _run(*words: str, environment: Mapping[str, str]) -> str:
    """Type a command, and give what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", *words,
        env=os.environ | environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, words
    return said.decode()


@contextlib.asynccontextmanager
async def _running(*words: str, environment: Mapping[str, str]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", *words, env=os.environ | environment
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


def _texts(source: Any) -> list[tuple[str, int, str]]:
    """Read what was read, line by line; every page of it."""
    table = pq.read_table(source, columns=["image_name", "line_index", "text", "ok"]).to_pylist()
    assert len({row["image_name"] for row in table}) == PAGES
    return [(row["image_name"], row["line_index"], row["text"]) for row in table if row["ok"]]


@pytest.mark.long
async def test_a_hundred_pages_are_read_by_one_system_and_the_same_over_sqs_and_s3(
    home: house.House, tmp_path: Path
) -> None:
    """With four worker processes, each of which knows its own queue only.

    When ocr is done again, nothing else is: all other files stay as they are, byte by byte.
    """
    _bind(tmp_path / "input" / NAME)
    alone = await _read_by_one_system(tmp_path)
    with cloud.start_server() as endpoint:
        apart = await _read_in_the_cloud(home, cloud.create(endpoint), tmp_path / "input" / NAME)
    assert apart == alone
    assert await home.violations() == []
    print(f"{PAGES} pages, {len(alone)} lines, the same both ways")  # noqa: T201


async def _read_by_one_system(folder: Path) -> list[tuple[str, int, str]]:
    buckets = {"volume_input": str(folder / "input"), "volume_output": str(folder / "output")}
    async with systems.open_system(**buckets) as system:
        known = {
            "PAGEWARDEN_HOME": str(system.home),
            "PAGEWARDEN_VOLUME_INPUT": buckets["volume_input"],
        }
        await _run("volumes", "create", NAME, "--key", "whole", environment=known)
        begin = time.monotonic()
        await polling.wait_until(lambda: _is_done(known), seconds=SECONDS)
        took = time.monotonic() - begin
        texts, before = _texts(folder / "output" / OCR), _digests(folder / "output")

        again = ("volumes", "rerun", "whole", "ocr", "--set", "profile=fast")
        await _run(*again, environment=known)
        begin = time.monotonic()
        await polling.wait_until(lambda: _is_done(known), seconds=SECONDS)
        print(f"all stages: {took:.0f} s; ocr again: {time.monotonic() - begin:.0f} s")  # noqa: T201
        after = _digests(folder / "output")
    assert {path for path in before if before[path] != after[path]} == {OCR}
    return texts


def _digests(output: Path) -> dict[str, str]:
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((output / "jobs").rglob("*"))
        if path.is_file()
    }


async def _is_done(environment: Mapping[str, str]) -> bool:
    await asyncio.sleep(1)
    said = await _run("volumes", "status", "whole", "--json", environment=environment)
    assert '"failed": 0' in said, said
    return "completed" in said


def _upload(moto: cloud.Cloud, originals: Path) -> None:
    for path in originals.iterdir():
        moto.s3.upload_file(str(path), moto.bucket, f"input/{NAME}/{path.name}")


async def _read_in_the_cloud(
    home: house.House, moto: cloud.Cloud, originals: Path
) -> list[tuple[str, int, str]]:
    await asyncio.to_thread(_upload, moto, originals)
    shared = {"PAGEWARDEN_DATABASE_URL": home.worker_url}
    known = {key: value for key, value in moto.environment.items() if "SQS" not in key}
    async with contextlib.AsyncExitStack() as crew:
        for stage in stages.STAGES:
            words = (
                *("volumes", "work", "--stage", stage),
                *("--input-bucket", f"s3://{moto.bucket}/input"),
                *("--output-bucket", f"s3://{moto.bucket}/output"),
            )
            own = {"SQS_QUEUE_URL": moto.urls[stage]}
            await crew.enter_async_context(_running(*words, environment=shared | known | own))
        leader = _running("volumes", "orchestrate", environment={**shared, **moto.environment})
        await crew.enter_async_context(leader)
        job = await home.order(NAME, job_key="whole")

        async def is_over() -> bool:
            query = f"select status <> 'running' from volume_jobs where id = {job}"
            return await home.rows(query) == [(True,)]

        await polling.wait_until(is_over, seconds=SECONDS)
    assert await home.tasks("current_stage", "status") == [("done", "done")]
    body = moto.s3.get_object(Bucket=moto.bucket, Key=f"output/{OCR}")["Body"].read()
    return _texts(io.BytesIO(body))
