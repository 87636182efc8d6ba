"""Broken files by the hundred; and the two commands that do so by the thousand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import testing

from pagewarden import cli
from pagewarden.bench import fuzz, mutation, seeds, trial

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 300


async def test_no_broken_file_does_harm() -> None:
    """Each ends in pages or in a typed error; our process is alive and has no more memory."""
    cases = fuzz.broken(seeds.all_kinds(), seed=3, numbers=range(COUNT))
    report = await trial.run(cases)

    assert report.counts.total() == COUNT
    assert report.unexpected == []
    assert set(report.counts) >= {"read", "DamagedFile"}
    assert report.memory_after < 1.2 * report.memory_before


async def test_the_seeds_themselves_are_read() -> None:
    """What the fuzzer breaks is whole: all but the locked one can be read."""
    report = await trial.run(iter(seeds.all_kinds().items()))
    assert report.counts == {"read": len(seeds.all_kinds()) - 1, "EncryptedFile": 1}
    assert report.slowest["EncryptedFile"].name == "locked.pdf"


@given(data=st.binary(min_size=1, max_size=300), seed=st.integers())
def test_mutations_can_be_repeated(data: bytes, seed: int) -> None:
    """The same chance breaks a file in the same way, so what it found can be looked into."""
    first, second = (mutation.mutate(data, random.Random(seed)) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("command", ["fuzz", "hostile"])
def test_the_commands_report(command: str, tmp_path: Path) -> None:
    """They count the endings and say that our process is alive."""
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    words = ["--count", "3", "--corpus", str(tmp_path)] if command == "fuzz" else [str(tmp_path)]
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["bench", command, *words])
    assert result.exit_code == 0, result.output
    assert "our own process is alive" in result.output
    assert command == "fuzz" or "DamagedFile" in result.output
