"""Every command that the documentation shows can be typed: it is there, and so are its options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import __main__ as benchmarks
from pagewarden import cli
from pagewarden.commands import volumes
from pagewarden.volumes import config

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy" / "README.md"]
# What stands for something else: an ellipsis, brackets of a usage line, names in a row.
_STANDS_FOR = re.compile(r"…|\.\.\.|\[|<|\||,")


def _commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        lines = [line for block in fenced for line in block.splitlines()]
        lines += re.findall(r"`((?:pagewarden|python -m benchmarks) [^`\n]+)`", text)
        for line in lines:
            command = re.sub(r"\s+#.*$|\s{3,}.*$", "", line.strip())
            command = re.sub(r"^(\.venv/bin/)?(python -m )?", "", command)
            if re.match(r"(pagewarden|benchmarks) [a-z]", command):
                found.append((page.name, command))
    return sorted(set(found))


def _find(program: str, words: list[str], command: str) -> tuple[Any, list[str]]:
    """Find the command that the first words name, and what is left of them."""
    known = benchmarks.COMMANDS if program == "benchmarks" else cli.COMMANDS
    assert words[0] in known, f"there is no command {words[0]!r}, as in {command!r}"
    found: Any = known[words[0]].load()
    words = words[1:]
    while words and hasattr(found, "commands") and not _STANDS_FOR.search(words[0]):
        assert words[0] in found.commands, f"there is no {words[0]!r}, as in {command!r}"
        found, words = found.commands[words[0]], words[1:]
    return found, words


def test_every_command_and_its_options_are_there(subtests: pytest.Subtests) -> None:
    """Where the documentation leaves something open, the rest is looked at."""
    for page, command in _commands():
        with subtests.test(f"{page}: {command}"):
            _require_command(page, command)


def _require_command(page: str, command: str) -> None:
    program, *words = shlex.split(command.replace("…", "X"))
    if _STANDS_FOR.search(words[0]):
        return
    found, words = _find(program, words, command)
    known = {"--help"} | {
        option for param in found.params for option in (*param.opts, *param.secondary_opts)
    }
    for word in words:
        if re.match(r"--?[a-zA-Z]", word) and not _STANDS_FOR.search(word):
            assert word.partition("=")[0] in known, f"{page}: {command!r} has no option {word}"


def test_commands_are_found() -> None:
    """The test would be worth nothing if the documentation were read wrongly."""
    assert len(_commands()) > 40


def test_what_a_command_sets_can_be_set(subtests: pytest.Subtests) -> None:
    """A job with such a config would be taken."""
    for page, command in _commands():
        if re.search(r"--set [a-z]", command):
            with subtests.test(f"{page}: {command}"):
                config.Config.parse(volumes.read_config(re.findall(r"--set (\S+)", command)))
