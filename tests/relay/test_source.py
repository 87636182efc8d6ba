"""The source of the relay: what Deno's own tools say of it, and which functions it knows."""

from __future__ import annotations

import re

import pytest

from functions import switchboard
from tests.support import deno


@pytest.mark.parametrize(
    "command", [("check", "--no-remote", "."), ("lint", "."), ("fmt", "--check", ".")]
)
async def test_denos_own_tools_find_nothing(command: tuple[str, ...]) -> None:
    """Types, habits and layout are as Deno wants them."""
    code, said = await deno.run(*command)
    assert code == 0, said


def test_the_relay_knows_the_functions_of_the_configuration() -> None:
    """No more, no fewer."""
    listed = re.findall(r'^  "(.+)",$', (deno.RELAY / "names.ts").read_text("utf-8"), re.MULTILINE)
    assert set(listed) == switchboard.names()
    assert listed == sorted(listed)


def test_the_relay_is_all_our_own() -> None:
    """Nothing is fetched from anywhere when it is deployed."""
    sources = {path.name: path.read_text("utf-8") for path in deno.RELAY.glob("*.ts")}
    imported = {name for text in sources.values() for name in re.findall(r'from "(.+)"', text)}
    assert imported == {"./names.ts", "./relay.ts"}
