"""The generated reference is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden.local import cluster

if TYPE_CHECKING:
    from tests.support import databases

ROOT = Path(__file__).parents[2]
UPDATE = "update it with .venv/bin/python scripts/reference.py"


def _load_script() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read_page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


async def test_database_page_is_up_to_date(database: databases.Database) -> None:
    """It has every function and table of the API, with callers and comment."""
    assert _read_page("database") == await _load_script().render_migrated_page(
        database.url(cluster.SUPERUSER)
    ), UPDATE


def test_routes_page_is_up_to_date() -> None:
    """It has every route of the OpenAPI document."""
    assert _read_page("routes") == _load_script().render_routes_page(), UPDATE


def test_commands_page_is_up_to_date() -> None:
    """It has every command with the first line of its help."""
    assert _read_page("commands") == _load_script().render_commands_page(), UPDATE
