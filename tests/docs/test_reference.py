"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden.local import cluster

if TYPE_CHECKING:
    from tests.support import databases

ROOT = Path(__file__).parents[2]
ANEW = "write it anew: .venv/bin/python scripts/reference.py"


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


async def test_functions_and_tables_are_described_as_they_are(database: databases.Database) -> None:
    """Every one that the API shows, with who may call it and what its comment says."""
    assert _page("database") == await _script().read(database.url(cluster.SUPERUSER)), ANEW


def test_routes_are_described_as_they_are() -> None:
    """Every one of the OpenAPI document."""
    assert _page("routes") == _script().routes_page(), ANEW


def test_commands_are_described_as_they_are() -> None:
    """Every one, with the first line of its help."""
    assert _page("commands") == _script().commands_page(), ANEW
