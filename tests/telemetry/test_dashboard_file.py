"""Code, documentation and the Grafana dashboard have the same metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import settings
from pagewarden.functions.http import monitoring
from pagewarden.gpu_service import service
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "pagewarden.json").read_text("utf-8"))
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yml"

_FAMILY = re.compile(r"_(bucket|sum|count)$")


def _counted() -> dict[str, str]:
    """Return the help of each of our metrics by name, without those of Python."""
    gpu = service.Metrics(service.AdmissionControl(slots=1, waiting=1))
    found = {}
    in_database = [
        family.make(name, family.meaning, labels=family.labels)
        for name, family in monitoring.FAMILIES.items()
    ]
    for families in (metrics.Metrics().registry.collect(), gpu.registry.collect(), in_database):
        for family in families:
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


def test_dashboard_shows_exactly_the_existing_metrics() -> None:
    """No panel is without data, and no metric without a panel."""
    assert _shown() == set(_counted())


def test_every_metric_is_documented() -> None:
    """The table has the help text of each metric."""
    table = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(pagewarden_\w+)` \| .+? \| (.+?) \|$", table, re.MULTILINE)
    assert dict(rows) == _counted()


def test_dashboard_has_no_fixed_data_source() -> None:
    """It can be imported into any Grafana."""
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "lane"}
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["title"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_panels_do_not_overlap() -> None:
    """Each fits into the 24 columns."""
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))


@pytest.mark.parametrize("label", ["document", "path", "user", "worker", "name"])
def test_labels_have_few_values(label: str) -> None:
    """Each value would be a series of its own."""
    table = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    labels = re.findall(r"^\| `pagewarden_\w+` \| (.+?) \|", table, re.MULTILINE)
    assert label not in {one.strip() for row in labels for one in row.split(",")}


def test_prometheus_example_scrapes_every_kind_of_process() -> None:
    """At the default ports."""
    text = PROMETHEUS.read_text("utf-8")
    jobs = re.findall(r"^  - job_name: (\S+)$.+?targets: \[(.+?)\]", text, re.DOTALL | re.MULTILINE)
    assert dict(jobs) == {
        "pagewarden-functions": f'"127.0.0.1:{settings.LISTEN_PORT}"',
        "pagewarden-workers": '"127.0.0.1:54340", "127.0.0.1:54341"',
        "pagewarden-gpu": f'"{settings.GPU_SERVICE_URL.removeprefix("http://")}"',
    }
