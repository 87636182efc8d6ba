"""Code, documentation and the dashboard for Grafana speak of the same metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from functions import standing
from gpu_service import service
from pagewarden import meters, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "pagewarden.json").read_text("utf-8"))
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yml"

_FAMILY = re.compile(r"_(bucket|sum|count)$")


def _counted() -> dict[str, str]:
    """Say what each metric of ours means, by its name; those of Python itself are left out."""
    gpu = service.Metrics(service.Admission(slots=1, waiting=1))
    found = {name: meaning for name, (meaning, _) in standing.GAUGES.items()}
    for registry in (meters.Meters().registry, gpu.registry):
        for family in registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = family.documentation
    return {name: meaning for name, meaning in found.items() if name.startswith("pagewarden_")}


def _expressions(panels: list[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        for target in panel.get("targets", ()):
            yield target["expr"]


def _shown() -> set[str]:
    words = re.findall(r"\bpagewarden_\w+", " ".join(_expressions(DASHBOARD["panels"])))
    known = _counted()
    return {word if word in known else _FAMILY.sub("", word) for word in words}


def test_the_dashboard_shows_every_metric_there_is_and_no_other() -> None:
    """A panel without data helps nobody, and neither does a metric that nobody sees."""
    assert _shown() == set(_counted())


def test_every_metric_is_documented_with_its_meaning() -> None:
    """The table has what the process itself says of them."""
    table = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(pagewarden_\w+)` \| .+? \| (.+?) \|$", table, re.MULTILINE)
    assert dict(rows) == _counted()


def test_the_dashboard_asks_for_its_data_source() -> None:
    """Nothing in it is bound to one Grafana."""
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "lane"}
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["title"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_no_panel_lies_over_another() -> None:
    """Each has its place in the 24 columns."""
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))


@pytest.mark.parametrize("label", ["document", "path", "user", "worker", "name"])
def test_no_label_can_have_any_number_of_values(label: str) -> None:
    """Each would be a series of its own, for ever."""
    table = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    labels = re.findall(r"^\| `pagewarden_\w+` \| (.+?) \|", table, re.MULTILINE)
    assert label not in {one.strip() for row in labels for one in row.split(",")}


def test_the_example_for_prometheus_scrapes_every_kind_of_process() -> None:
    """Where ours listen by default."""
    text = PROMETHEUS.read_text("utf-8")
    jobs = re.findall(r"^  - job_name: (\S+)$.+?targets: \[(.+?)\]", text, re.DOTALL | re.MULTILINE)
    assert dict(jobs) == {
        "pagewarden-functions": f'"127.0.0.1:{settings.LISTEN_PORT}"',
        "pagewarden-workers": '"127.0.0.1:54340", "127.0.0.1:54341"',
        "pagewarden-gpu": f'"{settings.GPU_SERVICE_URL.removeprefix("http://")}"',
    }
