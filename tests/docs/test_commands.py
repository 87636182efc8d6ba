"""All commands in the documentation exist, with their options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import __main__ as benchmarks
from pagewarden import cli
from pagewarden.cli import volumes
from pagewarden.volumes import config

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Placeholders: an ellipsis, brackets of a usage line, lists of names.
_PLACEHOLDER = re.compile(r"…|\.\.\.|\[|<|\||,")


def _list_commands() -> list[tuple[str, str]]:
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
    """Find the command named by the first words; return it and the remaining words."""
    known = benchmarks.COMMANDS if program == "benchmarks" else cli.COMMANDS
    assert words[0] in known, f"unknown command {words[0]!r} in {command!r}"
    found: Any = known[words[0]].load()
    words = words[1:]
    while words and hasattr(found, "commands") and not _PLACEHOLDER.search(words[0]):
        assert words[0] in found.commands, f"unknown command {words[0]!r} in {command!r}"
        found, words = found.commands[words[0]], words[1:]
    return found, words


def test_every_command_and_its_options_exist(subtests: pytest.Subtests) -> None:
    """Placeholders are skipped."""
    for page, command in _list_commands():
        with subtests.test(f"{page}: {command}"):
            _require_command(page, command)


def _require_command(page: str, command: str) -> None:
    program, *words = shlex.split(command.replace("…", "X"))
    if _PLACEHOLDER.search(words[0]):
        return
    found, words = _find(program, words, command)
    known = {"--help"} | {
        option for param in found.params for option in (*param.opts, *param.secondary_opts)
    }
    for word in words:
        if re.match(r"--?[a-zA-Z]", word) and not _PLACEHOLDER.search(word):
            assert word.partition("=")[0] in known, f"{page}: {command!r} has no option {word}"


def test_commands_are_extracted() -> None:
    """The documentation is parsed correctly."""
    assert len(_list_commands()) > 40


def test_config_in_commands_is_valid(subtests: pytest.Subtests) -> None:
    """The values of --set are a valid config of a job."""
    for page, command in _list_commands():
        if re.search(r"--set [a-z]", command):
            with subtests.test(f"{page}: {command}"):
                config.VolumeConfig.parse(volumes.parse_config(re.findall(r"--set (\S+)", command)))
