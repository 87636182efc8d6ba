"""The source of the relay passes Deno's checks and lists all functions."""

from __future__ import annotations

import re

import pytest

from pagewarden.functions.http import function_config
from tests.support import deno


@pytest.mark.parametrize(
    "command", [("check", "--no-remote", "."), ("lint", "."), ("fmt", "--check", ".")]
)
async def test_deno_tools_report_no_problems(command: tuple[str, ...]) -> None:
    """Type check, linter and formatter."""
    code, output = await deno.run(*command)
    assert code == 0, output


def test_relay_lists_the_functions_of_the_configuration() -> None:
    """All of them, sorted, and no others."""
    listed = re.findall(r'^  "(.+)",$', (deno.RELAY / "names.ts").read_text("utf-8"), re.MULTILINE)
    assert set(listed) == function_config.list_functions()
    assert listed == sorted(listed)


def test_relay_has_no_dependencies() -> None:
    """A deployment downloads nothing."""
    sources = {path.name: path.read_text("utf-8") for path in deno.RELAY.glob("*.ts")}
    imported = {name for text in sources.values() for name in re.findall(r'from "(.+)"', text)}
    assert imported == {"./names.ts", "./relay.ts"}
