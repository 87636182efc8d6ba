"""What the documentation says is so."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import AliasChoices

from pagewarden import errors, settings

ROOT = Path(__file__).parents[2]


def _documented_settings() -> dict[str, str]:
    table = (ROOT / "docs" / "settings.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?`) \| .+? \| (.+?) \|$", table, re.MULTILINE)
    return {name: meaning for names, meaning in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_setting_is_documented_with_its_meaning() -> None:
    """The table of settings has each name, each alias, and the description of the code."""
    expected: dict[str, str | None] = {}
    for name, field in settings.Settings.model_fields.items():
        alias = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [f"PAGEWARDEN_{name.upper()}"]
        expected |= {str(known): field.description for known in names}
    assert _documented_settings() == expected


def test_every_refusal_of_the_database_is_documented() -> None:
    """The table of refusals has each word with which the database refuses."""
    migrations = (ROOT / "supabase" / "migrations").glob("*.sql")
    sql = "".join(path.read_text("utf-8") for path in migrations)
    # A refusal is a word of capitals and underscores; states of other systems have none.
    said = set(re.findall(r"'([A-Z]+(?:_[A-Z]+)+)'", sql))
    documented = set(
        re.findall(r"`([A-Z_]{5,})`", (ROOT / "docs" / "errors.md").read_text("utf-8"))
    )
    assert said
    assert documented == said


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    """The docstring of errors.py names every class."""
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.PagewardenError)
    }
    assert drawn | {"PagewardenError"} == kinds


def test_links_of_the_documentation_lead_somewhere() -> None:
    """Every relative link of README and docs exists."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "sql" / "README.md"]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_alert_is_explained_and_has_its_place_in_the_handbook() -> None:
    """Whoever is paged finds what to do."""
    (path,) = (ROOT / "supabase" / "migrations").glob("*_alerts.sql")
    sql = path.read_text("utf-8")
    rules = set(re.findall(r"^  \('([a-z-]+-(?:critical|warning))', ", sql, re.MULTILINE))
    table = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    handbook = (ROOT / "docs" / "handbook.md").read_text("utf-8")
    headings = " ".join(re.findall(r"^### (.+)$", handbook, re.MULTILINE))
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == rules
    assert set(re.findall(r"[a-z-]+-(?:critical|warning)", headings)) == rules


def test_every_test_that_the_threat_model_names_is_there() -> None:
    """A line of it that nothing shows is a wish."""
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(
            re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
    assert named - found == set()
    assert len(named) > 40
