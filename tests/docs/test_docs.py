"""The documentation matches the code."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import AliasChoices

from pagewarden import errors, settings

ROOT = Path(__file__).parents[2]


def _documented_settings() -> dict[str, str]:
    table = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?`) \| .+? \| (.+?) \|$", table, re.MULTILINE)
    return {name: meaning for names, meaning in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_setting_is_documented() -> None:
    """The table of settings has each name, each alias, and the description in the code."""
    expected: dict[str, str | None] = {}
    for name, field in settings.Settings.model_fields.items():
        alias = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [f"PAGEWARDEN_{name.upper()}"]
        expected |= {str(known): field.description for known in names}
    assert _documented_settings() == expected


def test_every_database_refusal_is_documented() -> None:
    """The table of refusals has each error code of the database."""
    migrations = (ROOT / "supabase" / "migrations").glob("*.sql")
    sql = "".join(path.read_text("utf-8") for path in migrations)
    # An error code is in capitals with underscores; states of other systems have no underscore.
    codes = set(re.findall(r"'([A-Z]+(?:_[A-Z]+)+)'", sql))
    page = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    documented = set(re.findall(r"`([A-Z_]{5,})`", page))
    assert codes
    assert documented == codes


def test_error_tree_is_complete() -> None:
    """The tree in the docstring of errors.py has every class."""
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.PagewardenError)
    }
    assert drawn | {"PagewardenError"} == kinds


def test_every_alert_is_documented_and_has_a_procedure() -> None:
    """The table of alerts and the handbook have every rule."""
    (path,) = (ROOT / "supabase" / "migrations").glob("*_alerts.sql")
    sql = path.read_text("utf-8")
    rules = set(re.findall(r"^  \('([a-z-]+-(?:critical|warning))', ", sql, re.MULTILINE))
    table = (ROOT / "docs" / "reference" / "alerts.md").read_text("utf-8")
    handbook = (ROOT / "docs" / "how-to" / "handbook.md").read_text("utf-8")
    headings = " ".join(re.findall(r"^### (.+)$", handbook, re.MULTILINE))
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == rules
    assert set(re.findall(r"[a-z-]+-(?:critical|warning)", headings)) == rules


def test_tests_of_the_threat_model_exist() -> None:
    """Every test that the threat model names exists."""
    text = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(
            re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
    assert named - found == set()
    assert len(named) > 40
