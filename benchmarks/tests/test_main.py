"""The table of benchmarks: each is there, with its own help, and loaded when it is run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer import testing

from benchmarks import __main__ as main


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_overview_says_of_a_benchmark_what_it_says_itself(name: str) -> None:
    """The line that stands for a benchmark is the first one of its own help."""
    benchmark = main.COMMANDS[name]
    assert benchmark.load().help.splitlines()[0] == benchmark.line


def test_the_overview_has_all_benchmarks_in_order() -> None:
    """Asked for or not, each benchmark is there with its line; not asked for is an error."""
    runner = testing.CliRunner(env={"COLUMNS": "200"})
    asked, unasked = runner.invoke(main.app, ["--help"]), runner.invoke(main.app, [])
    assert (asked.exit_code, unasked.exit_code) == (0, 2)
    assert asked.output.strip() == unasked.output.strip()
    rows = re.findall(r"│ (\S+) +(.+?) +│", asked.output.partition("Commands")[2])
    assert rows == [(name, found.line) for name, found in main.COMMANDS.items()]


def test_a_benchmark_is_called_by_its_own_name() -> None:
    """Help and usage errors name it as it was typed."""
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(main.app, ["fuzz", "--no"])
    assert result.exit_code == 2
    assert "fuzz [OPTIONS]" in result.output
    assert "No such option: --no" in result.output


@pytest.mark.parametrize("name", ["fuzz", "hostile"])
def test_a_benchmark_explains_itself(name: str) -> None:
    """--help says what it does."""
    result = testing.CliRunner().invoke(main.app, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_an_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module runs as a program, and says what is missing without a traceback."""
    monkeypatch.setenv("COLUMNS", "200")
    program = [sys.executable, "-m", "benchmarks", "volumes", "--part", "speed"]
    ended = subprocess.run(program, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("benchmarks: there is no part 'speed'; choose of")
