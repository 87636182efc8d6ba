"""What deploy/ has for each target fits the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import AliasChoices

from functions import lambda_handler
from pagewarden import settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TEMPLATE = DEPLOY / "lambda" / "template.yaml"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
OF_THE_RELAY = {"PAGEWARDEN_URL", "PAGEWARDEN_RELAY_SECONDS"}


def _known() -> set[str]:
    known = set(OF_THE_RELAY)
    for name, field in settings.Settings.model_fields.items():
        alias = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [f"PAGEWARDEN_{name.upper()}"]
        known |= {str(choice) for choice in names}
    return known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_only_settings_that_exist_are_set(path: Path) -> None:
    """An unknown one would keep everything from starting."""
    named = set(re.findall(r"\bPAGEWARDEN_[A-Z0-9_]+", path.read_text("utf-8")))
    assert named <= _known()


def test_aws_would_take_the_template() -> None:
    """cfn-lint finds nothing, not even something to note."""
    found = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--include-checks", "I", "--", TEMPLATE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_template_schedules_what_lambda_can_call() -> None:
    """Every scheduled function once, in the shape that the handler knows."""
    inputs = re.findall(r"Input: '(.+)'", TEMPLATE.read_text("utf-8"))
    named = [lambda_handler.scheduled_function(json.loads(text)) for text in inputs]
    assert sorted(named) == sorted(lambda_handler.SCHEDULED)


def test_the_image_gets_what_it_is_built_from() -> None:
    """Whatever the wheel and the browser code are made of is let in, and nothing else is."""
    ignored = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text("utf-8")
    let_in = set(re.findall(r"^!(.+)$", ignored, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *(path.split("/")[0] for path in wheel["force-include"])}
    needed |= {project["project"]["readme"], *project["project"]["license-files"]}
    locks = {"requirements.lock", "package-lock.json"}
    assert let_in == needed | locks | {"pyproject.toml", "package.json"}


def test_links_of_the_guide_lead_somewhere() -> None:
    """Every relative link exists."""
    targets = re.findall(r"\]\(([^)#:]+)\)", (DEPLOY / "README.md").read_text("utf-8"))
    assert [target for target in targets if not (DEPLOY / target).exists()] == []
