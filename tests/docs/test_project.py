"""Workflows, recipes for contributors and metadata fit the project."""

from __future__ import annotations

import importlib.util
import io
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from pagewarden.exports import base
from tests.exports import samples

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TESTS = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
RECIPES = dict(re.findall(r"^### (Add .+)\n((?:(?!##).*\n)+)", CONTRIBUTING, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

_NAME = "NAME"  # in recipes, the name of what is added


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_only_call_targets_of_make(workflow: Path) -> None:
    """What they do can be repeated on any machine."""
    steps = re.findall(r"^[\s-]*run: *(.*)$", workflow.read_text("utf-8"), re.MULTILINE)
    calls = [re.fullmatch(r"make ([a-z-]+)(?: [A-Z_]+=(?:\"[^\"]*\"|[^\s\"]*))*", s) for s in steps]
    assert steps
    assert [step for step, call in zip(steps, calls, strict=True) if call is None] == []
    assert {call[1] for call in calls if call} <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_few_rights_and_limits(workflow: Path) -> None:
    """They may read, use actions of the forge itself, and end."""
    text = workflow.read_text("utf-8")
    assert re.findall(r"^ *permissions:.*\n(.*)\n", text, re.MULTILINE) == ["  contents: read"]
    assert re.search(r"^concurrency:\n  group: ", text, re.MULTILINE)
    actions = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert [action for action in actions if not re.fullmatch(r"actions/[a-z-]+@v\d+", action)] == []
    jobs = text.partition("\njobs:\n")[2]
    assert len(re.findall(r"^  \w+:$", jobs, re.MULTILINE)) == jobs.count("timeout-minutes:")
    assert jobs.count("actions/checkout") == jobs.count("persist-credentials: false")


def _matrix(name: str) -> list[str]:
    (versions,) = re.findall(rf"^ +{name}: \[(.+)\]$", TESTS, re.MULTILINE)
    return re.findall(r"\"([\d.]+)\"", versions)


def test_every_supported_version_is_tested() -> None:
    """Python as the metadata has it, Postgres as far as there are programs."""
    classifiers = "\n".join(PROJECT["classifiers"])
    assert _matrix("python") == re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    script = (ROOT / "scripts" / "fetch-postgres").read_text("utf-8")
    assert _matrix("postgres") == re.findall(r'^    "(\d+)": \(', script, re.MULTILINE)


def _without_blocks(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def _paths(recipe: str) -> set[str]:
    """Find the files and folders that a recipe names."""
    spans = re.findall(r"`([^`]+)`", _without_blocks(recipe))
    words = [word for span in spans for word in span.split() if not word.startswith(".")]
    return {word for word in words if re.fullmatch(r"[\w./-]+", word) and "/" in word}


@pytest.mark.parametrize("title", RECIPES)
def test_the_files_of_a_recipe_exist(title: str) -> None:
    """Of files to be written, the folder exists, and not yet the file."""
    paths = _paths(RECIPES[title])
    new = {path for path in paths if _NAME in path}
    assert len(paths) >= 5
    assert len(new) >= 1 or "row" in RECIPES[title]
    assert [path for path in paths - new if not (ROOT / path).exists()] == []
    assert [path for path in new if not (ROOT / path).parent.is_dir()] == []


@pytest.mark.parametrize("title", RECIPES)
def test_the_names_of_a_recipe_are_in_its_files(title: str) -> None:
    """Tables, functions and constants have not been renamed since."""
    recipe = RECIPES[title]
    files = [ROOT / path for path in _paths(recipe) if _NAME not in path]
    code = "".join(path.read_text("utf-8") for path in files if path.is_file())
    code += "".join(re.findall(r"```.*?```", recipe, re.DOTALL))
    names = set(re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)*)`", _without_blocks(recipe))) - {_NAME}
    assert names or "```python" in recipe
    assert [name for name in sorted(names) if name.rpartition(".")[2] not in code] == []


def test_the_export_format_of_the_recipe_writes_pages(tmp_path: Path) -> None:
    """It can be copied as it stands."""
    recipe = RECIPES["Add an export format"]
    (code,) = re.findall(r"^ *```python\n(.*?)^ *```", recipe, re.DOTALL | re.MULTILINE)
    path = tmp_path / "example.py"
    path.write_text(textwrap.dedent(code), "utf-8")
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = io.BytesIO()
    assert isinstance(module.FORMAT, base.Format)
    module.FORMAT.write(out, map(base.clean_page, samples.LETTER), base.Document("letter", path))
    assert b"Best regards" in out.getvalue()


def test_there_is_a_recipe_for_each_kind_of_extension() -> None:
    """In the order of the data: read, queue, look, watch, hand out."""
    assert list(RECIPES) == [
        "Add an OCR engine",
        "Add a lane",
        "Add a dashboard page",
        "Add an alert rule",
        "Add an export format",
    ]


def test_every_target_that_pages_name_exists() -> None:
    """Of make, in commands and in sentences."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "deploy" / "README.md"]
    named = {
        (target, page.name)
        for page in pages
        for code in re.findall(
            r"^ *```.*?^ *```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", code, re.MULTILINE)
    }
    assert len(named) > 10
    assert {(target, page) for target, page in named if target not in TARGETS} == set()
