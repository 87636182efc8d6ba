"""Children at work on pages: what each may do to itself, and to nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.ocr import limits
from pagewarden.ocr.sandbox import host, protocol, tasks
from pagewarden.volumes.stages import child_protocol, process_pool
from tests.support import polling
from tests.volumes.stages import ways

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = limits.Limits(page_seconds=3.0)


@asynccontextmanager
async def working(scratch: Path, width: int = 1) -> AsyncIterator[process_pool.ProcessPool]:
    """Start a sandbox with a crew."""
    task = tasks.SandboxTask(ways.__name__, "Ways", {"marks": str(scratch)})
    async with host.Sandbox("", "", task=task) as sandbox:
        assert sandbox.version == "7"
        async with process_pool.ProcessPool(sandbox, width, bounds=QUICK) as made:
            yield made


async def ask(
    made: process_pool.ProcessPool, way: str, blob: bytes = b""
) -> tuple[list[int], list[bytes]]:
    """Have a page done."""
    return await made.run(
        process_pool.Request(
            "page 7", ways.FACTS, lambda facts, _: len(facts) == 3, {"way": way}, blob
        )
    )


async def test_pages_are_done_by_the_same_child_one_after_another(tmp_path: Path) -> None:
    """Bytes go there and come back."""
    async with working(tmp_path) as made:
        (first, size, before), files = await ask(made, "echo", b"abc" * 100_000)
        assert (size, before, files) == (300_000, 1, [b"cba" * 100_000])
        assert (await ask(made, "echo"))[0] == [first, 0, 2]


async def test_as_many_children_work_as_are_allowed(tmp_path: Path) -> None:
    """And no more."""
    async with working(tmp_path, width=2) as made:
        found = await asyncio.gather(*(ask(made, "echo") for _ in range(8)))
    assert len({facts[0] for facts, _ in found}) == 2


async def test_a_page_that_kills_its_child_is_named_and_costs_no_other(tmp_path: Path) -> None:
    """The next one finds a new child."""
    async with working(tmp_path) as made:
        (before, *_), _ = await ask(made, "echo")
        with pytest.raises(errors.ReaderKilled, match=r"^page 7: .*Segmentation fault"):
            await ask(made, "crash")
        (after, *_), _ = await ask(made, "echo")
        assert after != before


async def test_a_page_is_tried_in_a_fresh_child_before_it_is_given_up(tmp_path: Path) -> None:
    """Its child may have been spoilt by the page before."""
    async with working(tmp_path) as made:
        await ask(made, "echo")
        assert (await ask(made, "crash unless fresh"))[0][2] == 1


async def test_an_error_of_a_page_leaves_the_child_alive(tmp_path: Path) -> None:
    """It is raised as it was in the child."""
    async with working(tmp_path) as made:
        (before, *_), _ = await ask(made, "echo")
        with pytest.raises(errors.DamagedFile, match="it is broken"):
            await ask(made, "damaged")
        assert (await ask(made, "echo"))[0][0] == before


@pytest.mark.parametrize("way", ["nonsense", "too little"])
async def test_a_child_that_talks_nonsense_is_not_believed(way: str, tmp_path: Path) -> None:
    """It counts as dead."""
    async with working(tmp_path) as made:
        with pytest.raises(errors.ReaderKilled, match="page 7"):
            await ask(made, way)


async def test_an_answer_that_does_not_fit_is_not_believed(tmp_path: Path) -> None:
    """Facts of the right kind may still be of another page."""
    async with working(tmp_path) as made:
        request = process_pool.Request("page 7", ways.FACTS, lambda *_: False, {"way": "echo"})
        with pytest.raises(errors.ReaderKilled):
            await made.run(request)


async def test_a_page_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """Trying again may help, on a calmer machine."""
    async with working(tmp_path) as made:
        with pytest.raises(errors.ReadingTimedOut, match="page 7: timed out after 3 s"):
            await ask(made, "asleep")


async def test_a_page_survives_that_the_sandbox_is_killed(tmp_path: Path) -> None:
    """That was not its fault."""
    async with working(tmp_path) as made:
        (child, *_), _ = await ask(made, "echo")
        os.kill(int(_status(child)["PPid"]), signal.SIGKILL)
        await polling.wait_until(lambda: _status(child).get("State", "Z").startswith("Z"))
        (other, *_), _ = await ask(made, "echo")
        assert other != child


async def test_whoever_gives_up_waiting_leaves_no_child_behind(tmp_path: Path) -> None:
    """A cancelled page is not answered to the next one who asks."""
    async with working(tmp_path) as made:
        (before, *_), _ = await ask(made, "echo")
        waiting = asyncio.create_task(ask(made, "asleep"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, 0.5)
        (after, *_), _ = await ask(made, "echo")
        assert after != before


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.mark.parametrize(
    "said",
    [
        {"contour": [[0, 0], [1, 10**12]]},
        {"contour": [[0, 0, 0]]},
        {"corners": [[0.0, 0.0]] * 3},
        {"corners": [[0.0, float("nan")]] * 4},
        {"confidence": float("inf")},
    ],
)
def test_places_that_no_page_has_are_not_believed(said: dict[str, object]) -> None:
    """They would spoil a whole file, or whatever is made of it."""
    good = {
        "contour": [[0, 0], [9, 9]],
        "confidence": 0.5,
        "corners": [[0.0, 0.0]] * 4,
        "block": 0,
    }
    assert child_protocol.LINES.validate_json(json.dumps([good]))
    facts = json.dumps([{**good, **said}]).encode()
    with pytest.raises(protocol.ProtocolError):
        child_protocol.unpack(child_protocol.LINES, {"sizes": [len(facts)]}, facts)
