"""Texts for users, operators and readers avoid words that the glossary replaces.

So do the names, comments and docstrings of the product.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.docs import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pytest

ROOT = wording.ROOT
PROGRAMS = ("pagewarden", "functions", "dashboard", "gpu_service", "benchmarks")

_MARKDOWN_CODE = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)
_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_JINJA_IMPORT = re.compile(r"\{% (?:from|import|extends|include) .*?%\}")
_TAG = re.compile(r"<script.*?</script>|<[^>]*>", re.DOTALL)
_SHOWN_ATTRIBUTE = re.compile(r"(?:title|placeholder|aria-label|alt|data-confirm)=\"[^\"]*\"")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_SQL_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_SCRIPT_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", re.DOTALL)


def _blank(text: str) -> str:
    """Keep only the line breaks."""
    return re.sub(r"[^\n]", " ", text)


def _keep(pattern: re.Pattern[str], text: str) -> str:
    """Blank everything that the pattern does not match."""
    parts, end = [], 0
    for match in pattern.finditer(text):
        parts += [_blank(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, _blank(text[end:])])


def _markdown(text: str) -> str:
    return _MARKDOWN_CODE.sub(lambda match: _blank(match[0]), text)


def _template(text: str) -> str:
    text = _JINJA_IMPORT.sub("", text)
    text = _JINJA.sub(lambda match: _keep(_QUOTED, match[0]).replace('"', " "), text)
    return _TAG.sub(lambda match: _keep(_SHOWN_ATTRIBUTE, match[0]), text)


def _sql(text: str) -> str:
    return _keep(_SQL_TEXT, text)


def _script(text: str) -> str:
    return _keep(_SCRIPT_TEXT, text)


def _found(files: Iterable[Path], visible: Callable[[str], str]) -> list[str]:
    """Return file, line and word of every hit."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sorted(files)
        for line, word in wording.find_words(visible(path.read_text("utf-8")))
    ]


def _is_written_by_hand(page: Path) -> bool:
    """Return whether a page is hand-written; the tables of settings have texts of the code."""
    return page.name not in {
        "metrics.md",
        "settings.md",
    } and "Written by `scripts/" not in page.read_text("utf-8")


def test_documentation_uses_plain_words() -> None:
    """Check pages, the changelog, and the help of make."""
    folders = (ROOT / name for name in ("docs", "deploy", "sql"))
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    written = [page for page in pages if _is_written_by_hand(page)]
    assert len(written) > 40
    assert _found([*written, ROOT / "Makefile"], _markdown) == []


def test_dashboard_uses_plain_words() -> None:
    """Check text and attributes of templates, strings and comments of browser scripts."""
    templates = list((ROOT / "dashboard" / "templates").glob("*.html"))
    assert templates
    assert _found([*templates, ROOT / "pagewarden" / "checks" / "report.html"], _template) == []
    assert _found((ROOT / "dashboard" / "static").glob("*.js"), _script) == []


def test_database_uses_plain_words() -> None:
    """Check messages and comments of the migrations, and of the statements for operators."""
    files = [*(ROOT / "supabase" / "migrations").glob("*.sql"), *(ROOT / "sql").rglob("*.sql")]
    assert len(files) > 40
    assert _found(files, _sql) == []


def _modules() -> list[Path]:
    """List the modules of all programs."""
    return [module for folder in PROGRAMS for module in wording.list_modules(folder)]


def test_code_uses_plain_words() -> None:
    """Check errors, log events, help, descriptions of fields, docstrings and comments."""
    assert _modules()
    assert wording.find_text_hits(_modules()) == []


def test_code_uses_plain_names() -> None:
    """Check modules, classes, functions, parameters and variables."""
    assert wording.find_name_hits(_modules()) == []


def test_words_are_found_in_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are found in sentences, log events and comments, but not in keys."""
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    module = tmp_path / "kept.py"
    module.write_text(
        "def fetch(said, *, others=None):  # in vain\n"
        '    """Fetch\n    anew."""\n'
        '    log.info("was_told", key="said")\n'
        '    _MOST_PAGES = f"{others} wish"\n'
    )
    assert wording.find_text_hits([module]) == [
        "kept.py:1: in vain", "kept.py:3: anew", "kept.py:4: told", "kept.py:5: wish",
    ]  # fmt: skip
    assert wording.find_name_hits([module]) == [
        "kept.py:1: kept", "kept.py:1: said", "kept.py:5: _MOST_PAGES",
    ]  # fmt: skip


def test_words_are_found_in_other_files() -> None:
    """Words are found in text, also across line breaks, but not in code."""
    text = "Whoever\nreads `nobody` makes\n no sense."
    assert list(wording.find_words(_markdown(text))) == [(1, "Whoever"), (2, "makes no sense")]
    page = '<p id="wishes" title="Nobody">{{ wishes|join("anew") }}{% if told %} mended</p>'
    assert wording.WORDS.findall(_template(page)) == ["Nobody", "anew", "mended"]
    assert wording.WORDS.findall(_sql("select told -- it is said\nfrom a where b = 'wish'")) == [
        "said",
        "wish",
    ]
