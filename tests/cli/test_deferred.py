"""Commands are imported only when they run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer import testing

from pagewarden import cli

DATABASE = ("psycopg", "asyncpg")
READING = ("numpy", "cv2", "onnxruntime", "pikepdf", "PIL")
WEB = ("fastapi", "httpx", "postgrest", "jwt", "obstore")
WATCHING = ("prometheus_client", "opentelemetry")

LOGGING = """
import contextlib
import structlog
from pagewarden import cli

with contextlib.suppress(SystemExit):
    cli.main()
structlog.get_logger().info("something happened")
"""


def imported(program: str) -> set[str]:
    """Run a program in an interpreter of its own, and say which packages it imported."""
    said = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return set(said.stdout.split())


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_overview_says_of_a_command_what_it_says_itself(name: str) -> None:
    """The summary of a command is the first line of its help."""
    command = cli.COMMANDS[name]
    assert command.load().help.splitlines()[0] == command.summary


def test_the_overview_has_all_commands_in_order() -> None:
    """Asked for or not, each command is there with its line; not asked for is an error."""
    runner = testing.CliRunner(env={"COLUMNS": "200"})
    asked, unasked = runner.invoke(cli.app, ["--help"]), runner.invoke(cli.app, [])
    assert (asked.exit_code, unasked.exit_code) == (0, 2)
    assert asked.output.strip() == unasked.output.strip()
    rows = re.findall(r"│ (\S+) +(.+?) +│", asked.output.partition("Commands")[2])
    assert rows == [(name, command.summary) for name, command in cli.COMMANDS.items()]


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["sttus"], "status"), (["user", "lst"], "list")],
)
def test_a_typo_is_answered_with_what_was_meant(words: list[str], meant: str) -> None:
    """A command that does not exist is a usage error that suggests one that does."""
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, words)
    assert result.exit_code == 2
    assert f"No such command '{words[-1]}'. Did you mean '{meant}'?" in result.output


@pytest.mark.parametrize("words", [[], ["user"], ["status"]])
def test_nothing_offers_to_complete_words(words: list[str]) -> None:
    """Commands have the options that we gave them, and no more."""
    result = testing.CliRunner().invoke(cli.app, [*words, "--show-completion"])
    assert result.exit_code == 2
    assert "No such option: --show-completion" in result.output


def test_a_command_is_called_by_its_own_name() -> None:
    """Help and complaints of a command name it as it was typed."""
    result = testing.CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["ocr", "--no"])
    assert result.exit_code == 2
    assert "ocr [OPTIONS]" in result.output
    assert "No such option: --no" in result.output


def test_what_a_command_logs_goes_to_standard_error() -> None:
    """Standard output is for what was asked for."""
    program = [sys.executable, "-c", LOGGING, "user", "--help"]
    ended = subprocess.run(program, check=True, capture_output=True, text=True)
    assert "Usage: " in ended.stdout
    assert "something happened" not in ended.stdout
    assert "something happened" in ended.stderr


def test_the_command_itself_imports_no_command() -> None:
    """Showing the overview takes nothing that only commands need."""
    shown = "from pagewarden import cli\ntry:\n  cli.app(['--help'])\nexcept SystemExit:\n  pass"
    found = imported(shown)
    assert not found & {*DATABASE, *READING, *WEB, "pydantic", "structlog"}
    assert not found & {command.module for command in cli.COMMANDS.values()}


@pytest.mark.parametrize(
    ("name", "needless"),
    [
        ("upload", (*DATABASE, *READING, *WATCHING, "fastapi", "postgrest", "jwt", "obstore")),
        ("import", (*DATABASE, *READING, *WATCHING, "fastapi", "postgrest", "jwt", "obstore")),
        ("login", (*DATABASE, *READING, *WATCHING, "fastapi", "postgrest", "jwt", "obstore")),
        ("status", (*READING, *WEB, *WATCHING, "asyncpg")),
        ("migrate", (*READING, *WEB, *WATCHING, "asyncpg")),
        ("doctor", (*READING, *WEB, *WATCHING, "asyncpg")),
        ("user", (*READING, *WEB, *WATCHING, "asyncpg")),
        ("dlq", (*READING, *WEB, "opentelemetry", "asyncpg")),
        ("ocr", (*DATABASE, *WEB, *WATCHING, "cv2", "onnxruntime", "pikepdf", "PIL")),
        (
            "check",
            (*DATABASE, *WEB, *WATCHING, "cv2", "onnxruntime", "pikepdf", "PIL", "lingua"),
        ),
        (
            "work",
            (
                "cv2",
                "onnxruntime",
                "pikepdf",
                "PIL",
                "fastapi",
                "postgrest",
                "asyncpg",
                "opentelemetry",
            ),
        ),
    ],
)
def test_a_command_imports_only_what_it_needs(name: str, needless: tuple[str, ...]) -> None:
    """No database for who talks to a server, no reading in our own process for anybody."""
    assert not imported(f"import {cli.COMMANDS[name].module}") & set(needless)
