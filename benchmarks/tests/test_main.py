"""The table of benchmarks: each has its help, and is loaded when it is run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer import testing

from benchmarks import __main__ as main


@pytest.mark.parametrize("name", main.COMMANDS)
def test_table_has_first_line_of_help(name: str) -> None:
    """The table repeats the first line of each benchmark's own help."""
    benchmark = main.COMMANDS[name]
    assert benchmark.load().help.splitlines()[0] == benchmark.summary


def test_help_lists_all_benchmarks_in_order() -> None:
    """Without arguments the program prints the same help, and exits with 2."""
    runner = testing.CliRunner(env={"COLUMNS": "200"})
    with_option, without = runner.invoke(main.app, ["--help"]), runner.invoke(main.app, [])
    assert (with_option.exit_code, without.exit_code) == (0, 2)
    assert with_option.output.strip() == without.output.strip()
    rows = re.findall(r"│ (\S+) +(.+?) +│", with_option.output.partition("Commands")[2])
    assert rows == [(name, command.summary) for name, command in main.COMMANDS.items()]


def test_usage_error_names_benchmark() -> None:
    """Help and usage errors name the benchmark as typed."""
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(main.app, ["fuzz", "--no"])
    assert result.exit_code == 2
    assert "fuzz [OPTIONS]" in result.output
    assert "No such option: --no" in result.output


@pytest.mark.parametrize("name", ["fuzz", "hostile"])
def test_benchmark_has_help(name: str) -> None:
    """`--help` describes the benchmark."""
    result = testing.CliRunner().invoke(main.app, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program prints an error message without a traceback."""
    monkeypatch.setenv("COLUMNS", "200")
    program = [sys.executable, "-m", "benchmarks", "volumes", "--part", "speed"]
    result = subprocess.run(program, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith("benchmarks: unknown part 'speed'; choose from")
