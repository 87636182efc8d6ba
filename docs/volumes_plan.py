"""The plan for many volumes, computed from what a real job took.

    pagewarden volumes status JOB --json > status.json
    python docs/volumes_plan.py collect status.json OUTPUT/jobs/JOB --cores 2 > rates.json
    python docs/volumes_plan.py plan rates.json --volumes 60000 --images 22000000 --days 30

Prices are list prices on demand, in US dollars, and options; everything else is measured.
"""

# ruff: noqa: INP001  # a script among documents

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STAGES = ("line_detection", "line_extraction", "ocr", "reduce")
HOUR = 3600
GIGABYTE = 1e9
# Part of the time in which a machine does not wait for its next volume or for the store.
BUSY = 0.85
# What the database publishes of one job for one stage, see publish_ready_volumes.
WINDOW = 200
HEARTBEAT_SECONDS = 5
# Calls of the database for a turn: receive, start, complete, acknowledge, and one to move it on.
CALLS = 5
# Requests to SQS for a turn, besides heartbeats: send, receive, delete.
REQUESTS = 3


@dataclass(frozen=True)
class Prices:
    """US dollars."""

    machine_hour: float
    gigabyte_month: float
    put: float
    request: float


@dataclass(frozen=True)
class Stage:
    """What one page costs at a stage."""

    name: str
    core_seconds: float
    table_bytes: float
    image_bytes: float
    images: float


@dataclass(frozen=True)
class Order:
    """What is to be done, in which time, on machines with so many cores."""

    volumes: int
    images: int
    days: float
    machine_cores: int

    @property
    def pages_of_a_volume(self) -> float:
        """Give the mean."""
        return self.images / self.volumes


def collect(status: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Take rates from the status of a job, and sizes from its folder of artifacts."""
    job = json.loads(status.read_text("utf-8"))["job"]
    counts = {count["stage"]: count for count in job["stages"]}
    rates: dict[str, Any] = {"cores": cores, "stages": {}}
    for name in STAGES:
        files = [path for path in folder.glob(f"volumes/*/{name}/**/*") if path.is_file()]
        tables = [path for path in files if path.suffix == ".parquet"]
        images = [path for path in files if path.suffix == ".jpg"]
        rates["stages"][name] = {
            "pages": counts[name]["pages"],
            "seconds": round(counts[name]["seconds"], 1),
            "table_bytes": sum(path.stat().st_size for path in tables),
            "image_bytes": sum(path.stat().st_size for path in images),
            "images": len(images),
        }
    return rates


def read(rates: dict[str, Any]) -> list[Stage]:
    """Give what one page costs."""
    stages = []
    for name in STAGES:
        row = rates["stages"][name]
        pages = row["pages"]
        stages.append(
            Stage(
                name,
                row["seconds"] * rates["cores"] / pages,
                row["table_bytes"] / pages,
                row["image_bytes"] / pages,
                row["images"] / pages,
            )
        )
    return stages


def machines(stage: Stage, order: Order) -> int:
    """Tell how many machines a stage needs to be done in time."""
    return math.ceil(machine_hours(stage, order) / (order.days * 24))


def machine_hours(stage: Stage, order: Order) -> float:
    """Tell what a stage takes on one machine."""
    return stage.core_seconds * order.images / HOUR / order.machine_cores / BUSY


def plan(stages: list[Stage], order: Order, prices: Prices) -> str:
    """Write the plan."""
    return "\n".join(
        [
            *_work(stages, order, prices),
            "",
            *_queues(stages, order, prices),
            "",
            *_artifacts(stages, order, prices),
        ]
    )


def _work(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    rows = [
        "| stage | core-s/page | min/volume and machine | machine-hours | machines | cost |",
        "|---|---|---|---|---|---|",
    ]
    for stage in stages:
        hours = machine_hours(stage, order)
        minutes = stage.core_seconds * order.pages_of_a_volume / order.machine_cores / 60
        rows.append(
            f"| {stage.name} | {stage.core_seconds:.2f} | {minutes:.1f} | {hours:,.0f} | "
            f"{machines(stage, order):,} | ${hours * prices.machine_hour:,.0f} |"
        )
    hours = sum(machine_hours(stage, order) for stage in stages)
    count = sum(machines(stage, order) for stage in stages)
    rows.append(
        f"| **all** | {sum(s.core_seconds for s in stages):.2f} | | {hours:,.0f} | {count:,} | "
        f"**${hours * prices.machine_hour:,.0f}** |"
    )
    return rows


def _queues(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    turns = order.volumes * len(stages)
    count = sum(machines(stage, order) for stage in stages)
    seconds = sum(s.core_seconds for s in stages) * order.images / order.machine_cores
    requests = REQUESTS * turns + seconds / HEARTBEAT_SECONDS
    calls = count / HEARTBEAT_SECONDS + CALLS * turns / (order.days * 24 * HOUR)
    return [
        f"- Messages: {turns:,}, of which at most {WINDOW} of a job wait for a stage at a time.",
        (
            f"- Postgres: {calls:,.1f} calls a second ({count:,} workers, a heartbeat every "
            f"{HEARTBEAT_SECONDS} s); rows: {order.volumes:,} tasks, {turns:,} turns, "
            f"{order.volumes:,} results."
        ),
        (
            f"- SQS instead of pgmq: {requests / 1e6:,.1f} million requests, "
            f"${requests * prices.request:,.0f}."
        ),
    ]


def _artifacts(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    rows = [
        "| stage | Parquet of a volume | Parquet | images | objects | PUTs | a month |",
        "|---|---|---|---|---|---|---|",
    ]
    for stage in stages:
        tables = stage.table_bytes * order.images / GIGABYTE
        images = stage.image_bytes * order.images / GIGABYTE
        objects = stage.images * order.images + (order.volumes if stage.table_bytes else 0)
        of_volume = stage.table_bytes * order.pages_of_a_volume / 1e6
        rows.append(
            f"| {stage.name} | {of_volume:.1f} MB | {tables:,.0f} GB | {images:,.0f} GB | "
            f"{objects / 1e6:,.1f} million | ${objects * prices.put:,.0f} | "
            f"${(tables + images) * prices.gigabyte_month:,.0f} |"
        )
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="take rates from a job")
    collecting.add_argument("status", type=Path, help="what `volumes status JOB --json` said")
    collecting.add_argument("folder", type=Path, help="the folder of the job's artifacts")
    collecting.add_argument("--cores", type=int, required=True, help="that a worker could use")
    planning = commands.add_parser("plan", help="compute the plan from rates")
    planning.add_argument("rates", type=Path)
    planning.add_argument("--volumes", type=int, default=60_000)
    planning.add_argument("--images", type=int, default=22_000_000)
    planning.add_argument("--days", type=float, default=30)
    planning.add_argument("--machine-cores", type=int, default=4)
    planning.add_argument("--machine-hour", type=float, default=0.17, help="a c6i.xlarge")
    planning.add_argument("--gigabyte-month", type=float, default=0.023)
    planning.add_argument("--put", type=float, default=0.005 / 1000)
    planning.add_argument("--request", type=float, default=0.5 / 1e6)
    return parser.parse_args()


def main() -> None:
    """Do what was asked for."""
    given = _arguments()
    if given.command == "collect":
        said = json.dumps(collect(given.status, given.folder, given.cores), indent=2)
    else:
        order = Order(given.volumes, given.images, given.days, given.machine_cores)
        prices = Prices(given.machine_hour, given.gigabyte_month, given.put, given.request)
        said = plan(read(json.loads(given.rates.read_text("utf-8"))), order, prices)
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
