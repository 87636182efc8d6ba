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

from pagewarden import settings
from pagewarden.functions import lambda_handler

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TEMPLATE = DEPLOY / "lambda" / "template.yaml"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
RELAY_VARIABLES = {"PAGEWARDEN_URL", "PAGEWARDEN_RELAY_SECONDS"}


def _known_variables() -> set[str]:
    known = set(RELAY_VARIABLES)
    for name, field in settings.Settings.model_fields.items():
        alias = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [f"PAGEWARDEN_{name.upper()}"]
        known |= {str(choice) for choice in names}
    return known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_only_existing_settings_are_set(path: Path) -> None:
    """An unknown setting would prevent all programs from starting."""
    named = set(re.findall(r"\bPAGEWARDEN_[A-Z0-9_]+", path.read_text("utf-8")))
    assert named <= _known_variables()


def test_template_passes_cfn_lint() -> None:
    """cfn-lint reports nothing, not even at level info."""
    result = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--include-checks", "I", "--", TEMPLATE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_template_schedules_the_functions_of_the_handler() -> None:
    """Each function is scheduled once, with an event that the handler accepts."""
    inputs = re.findall(r"Input: '(.+)'", TEMPLATE.read_text("utf-8"))
    named = [lambda_handler.scheduled_function(json.loads(text)) for text in inputs]
    assert sorted(named) == sorted(lambda_handler.SCHEDULED)


def test_image_gets_the_files_it_is_built_from() -> None:
    """The build context has the files of the wheel and of the browser code, and no others."""
    ignored = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text("utf-8")
    included = set(re.findall(r"^!(.+)$", ignored, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *(path.split("/")[0] for path in wheel["force-include"])}
    needed |= {"hatch_build.py", "functions", "dashboard", "gpu_service"}
    needed |= {project["project"]["readme"], *project["project"]["license-files"]}
    locks = {"requirements.lock", "package-lock.json"}
    assert included == needed | locks | {"pyproject.toml", "package.json"}
