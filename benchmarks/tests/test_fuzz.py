"""The two commands that read broken files by the thousand."""

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
def test_mutations_can_be_repeated(data: bytes, seed: int) -> None:
    """The same chance breaks a file in the same way, so what it found can be looked into."""
    first, second = (fuzz.mutate(data, random.Random(seed)) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("command", ["fuzz", "hostile"])
def test_the_commands_report(command: str, tmp_path: Path) -> None:
    """They count the endings and say that our process is alive."""
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    words = ["--count", "3", "--corpus", str(tmp_path)] if command == "fuzz" else [str(tmp_path)]
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(main.app, [command, *words])
    assert result.exit_code == 0, result.output
    assert "our own process is alive" in result.output
    assert command == "fuzz" or "DamagedFile" in result.output
