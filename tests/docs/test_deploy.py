"""What deploy/ has for each target fits the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]
from pydantic import AliasChoices

from pagewarden import settings
from pagewarden.functions import app, lambda_handler

if TYPE_CHECKING:
    from tests.support import databases

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


async def test_template_schedules_what_the_database_schedules(
    database: databases.Database,
) -> None:
    """At the same times; EventBridge has no intervals of less than a minute."""
    connection = await database.connect()
    rows = await connection.execute(
        "select function_name, schedule from edge_function_config where schedule is not null"
    )
    rates = {"* * * * *": "rate(1 minute)", "17 * * * *": "rate(1 hour)"}
    expected = {
        name: "rate(1 minute)" if schedule.endswith(" seconds") else rates[schedule]
        for name, schedule in await rows.fetchall()
    }
    events = _load_template()["Workers"]["Events"].values()
    scheduled = {
        lambda_handler.scheduled_function(json.loads(event["Input"])): event["ScheduleExpression"]
        for event in (event["Properties"] for event in events)
    }
    assert len(scheduled) == len(events)
    assert scheduled == expected
    assert set(expected) == lambda_handler.SCHEDULED


def test_template_routes_long_functions_to_the_one_with_time() -> None:
    """The others have 29 seconds."""
    resources = _load_template()
    assert resources["Workers"]["Timeout"] > resources["Functions"]["Timeout"] == 29
    targets = {
        part["RouteKey"]: part["Target"] for part in resources.values() if "RouteKey" in part
    }
    assert targets.pop("$default") == "integrations/${FunctionsIntegration}"
    assert set(targets.values()) == {"integrations/${WorkersIntegration}"}
    pushes = {"POST /pubsub/push", f"POST {app.PREFIX}/pubsub/push"}
    names = {*lambda_handler.READERS, *lambda_handler.SCHEDULED}
    assert set(targets) == {f"POST {app.PREFIX}/{name}" for name in names} | pushes
    for name in ("Functions", "Workers"):
        assert resources[f"{name}Integration"]["IntegrationUri"] == f"{name}.Arn"


def test_each_profile_of_compose_has_one_schedule() -> None:
    """Either workers read, or the schedule calls the functions that do; volumes have workers."""
    services = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())["services"]
    by_profile = {
        profile: {
            name: part.get("command", [])[1:]
            for name, part in services.items()
            if profile in part.get("profiles", [profile])
        }
        for profile in ("workers", "serverless")
    }
    workers, serverless = by_profile["workers"], by_profile["serverless"]
    url = services["functions"]["environment"]["PAGEWARDEN_FUNCTIONS_URL"]
    assert workers.pop("worker") == ["work"]
    assert workers.pop("schedule") == ["schedule", url]
    assert serverless.pop("schedule-serverless") == ["schedule", "--serverless", url]
    assert workers == serverless
    assert workers["volumes"] == ["volumes", "work"]


def _load_template() -> dict[str, Any]:
    """Return the properties of each resource of the template, by name."""
    # Functions of CloudFormation, such as !Ref, are read as their arguments.
    loader: Any = type("TemplateLoader", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("!", lambda _loader, _name, node: node.value)
    content = yaml.load(TEMPLATE.read_text("utf-8"), loader)  # noqa: S506  # a safe loader
    return {name: part["Properties"] for name, part in content["Resources"].items()}


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
