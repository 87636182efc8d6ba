"""The plan for many volumes in the documentation is the output of its script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "volumes_plan.py"
RATES = ROOT / "scripts" / "volumes_rates.json"


def _run(*arguments: str | Path) -> str:
    result = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_plan_in_the_documentation_is_up_to_date() -> None:
    """The table must be updated with the measurements."""
    text = (ROOT / "docs" / "how-to" / "volumes.md").read_text("utf-8")
    shown = text.split("scripts/volumes_rates.json -->\n")[1].split("<!-- end -->")[0]
    assert shown.strip() == _run("plan", RATES)


def test_rates_are_collected_from_a_job(tmp_path: Path) -> None:
    """Pages and seconds are from its status, sizes from its artifacts."""
    stages = [
        {"stage": stage, "pages": 10, "seconds": 20.0}
        for stage in ("line_detection", "line_extraction", "ocr", "reduce")
    ]
    status = tmp_path / "status.json"
    status.write_text(json.dumps({"job": {"stages": stages}}))
    folder = tmp_path / "job" / "volumes" / "W1-I1" / "line_extraction"
    (folder / "lines").mkdir(parents=True)
    (folder / "line_images.parquet").write_bytes(bytes(100))
    for number in range(3):
        (folder / "lines" / f"{number}.jpg").write_bytes(bytes(10))

    rates = json.loads(_run("collect", status, tmp_path / "job", "--cores", "2"))

    assert rates["stages"]["line_extraction"] == {
        "pages": 10,
        "seconds": 20.0,
        "table_bytes": 100,
        "image_bytes": 30,
        "images": 3,
    }
    assert rates["stages"]["ocr"]["table_bytes"] == 0


def test_twice_the_time_needs_fewer_machines() -> None:
    """The cost is the same."""
    fast, slow = (_run("plan", RATES, "--days", days) for days in ("10", "20"))
    total = [line for line in fast.splitlines() if line.startswith("| **all**")]
    cells = [cell.strip() for cell in total[0].split("|")]
    later = [cell.strip() for cell in slow.splitlines()[6].split("|")]
    assert cells[-2] == later[-2]
    assert int(cells[-3]) > int(later[-3])
