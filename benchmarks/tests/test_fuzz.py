"""The commands `fuzz` and `hostile`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import testing

from benchmarks import __main__ as main
from benchmarks import fuzz

if TYPE_CHECKING:
    from pathlib import Path


@given(data=st.binary(min_size=1, max_size=300), seed=st.integers())
def test_same_seed_gives_same_mutation(data: bytes, seed: int) -> None:
    """So a failure can be repeated."""
    first, second = (fuzz.mutate(data, random.Random(seed)) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("command", ["fuzz", "hostile"])
def test_command_reports_outcomes(command: str, tmp_path: Path) -> None:
    """And the memory of the parent process."""
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    arguments = (
        ["--count", "3", "--corpus", str(tmp_path)] if command == "fuzz" else [str(tmp_path)]
    )
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(main.app, [command, *arguments])
    assert result.exit_code == 0, result.output
    assert "the parent process survived" in result.output
    assert command == "fuzz" or "DamagedFile" in result.output
