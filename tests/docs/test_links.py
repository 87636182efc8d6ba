"""Links between pages, and paths of pages in code, are valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "deploy", "sql", "supabase")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
SOURCES = ("pagewarden", "functions", "dashboard", "gpu_service", "benchmarks", "scripts", "tests")
SUFFIXES = {".py", ".sql", ".html", ".yml", ".yaml", ".ts"}


def _without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings."""
    headings = re.findall(r"^#+ (.+)$", _without_code(page), re.MULTILINE)
    found: set[str] = set()
    for heading in headings:
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = sum(1 for anchor in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", anchor))
        found.add(f"{slug}-{number}" if number else slug)
    return found


def _broken_links(page: Path) -> Iterator[str]:
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", _without_code(page)):
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: {path} does not exist"
        elif anchor and anchor not in _anchors(target):
            yield f"{page.relative_to(ROOT)}: {path} has no heading #{anchor}"


def test_every_link_and_anchor_resolves() -> None:
    """Relative links of every page point to a file, and to a heading in it."""
    assert len(PAGES) > 40
    assert [broken for page in PAGES for broken in _broken_links(page)] == []


def test_every_page_is_in_the_index() -> None:
    """The index of the documentation links every page except the decisions."""
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    linked = {(ROOT / "docs" / path).resolve() for path in re.findall(r"\]\(([^)#]+)", index)}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    decisions = set((ROOT / "docs" / "decisions").glob("*.md"))
    assert pages - linked - decisions - {ROOT / "docs" / "README.md"} == set()


def test_pages_named_in_code_exist() -> None:
    """Comments and messages name pages by their path from the root of the repository."""
    files = [ROOT / "conftest.py", ROOT / "Makefile"]
    for folder in (*SOURCES, *FOLDERS):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|png)", path.read_text("utf-8"))
        if not (ROOT / name).exists()
    ]
    assert missing == []
