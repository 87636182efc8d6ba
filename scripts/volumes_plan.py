#!/usr/bin/env python3
"""Plan machines, queues and storage for many volumes from the measurements of a real job.

    pagewarden volumes status JOB --json > status.json
    python scripts/volumes_plan.py collect status.json OUTPUT/jobs/JOB --cores 2 > rates.json
    python scripts/volumes_plan.py plan rates.json --volumes 60000 --images 22000000 --days 30

Prices are options, by default list prices on demand in US dollars; all other rates are measured.
"""

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
# The share of time in which a machine does not wait for its next volume or for the store.
UTILIZATION = 0.85
# Volumes of one job that the database publishes for a stage at a time; see publish_ready_volumes.
WINDOW = 200
HEARTBEAT_SECONDS = 5
# Database calls of an attempt: receive, start, complete, acknowledge, and one to advance it.
CALLS = 5
# SQS requests of an attempt, besides heartbeats: send, receive, delete.
REQUESTS = 3


@dataclass(frozen=True)
class Prices:
    """Prices in US dollars."""

    machine_hour: float
    gigabyte_month: float
    put: float
    request: float


@dataclass(frozen=True)
class Stage:
    """The cost of one page at a stage."""

    name: str
    core_seconds: float
    table_bytes: float
    image_bytes: float
    images: float


@dataclass(frozen=True)
class Order:
    """The amount of work, the available time, and the cores of each machine."""

    volumes: int
    images: int
    days: float
    machine_cores: int

    @property
    def pages_per_volume(self) -> float:
        """Return the mean number of pages."""
        return self.images / self.volumes


def read_measurements(status: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Return rates from the status of a job, and sizes from its folder of artifacts."""
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


def parse_stages(rates: dict[str, Any]) -> list[Stage]:
    """Return the cost of one page at each stage."""
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


def count_machines(stage: Stage, order: Order) -> int:
    """Return how many machines a stage needs to finish in time."""
    return math.ceil(compute_machine_hours(stage, order) / (order.days * 24))


def compute_machine_hours(stage: Stage, order: Order) -> float:
    """Return how long a stage takes on one machine."""
    return stage.core_seconds * order.images / HOUR / order.machine_cores / UTILIZATION


def format_plan(stages: list[Stage], order: Order, prices: Prices) -> str:
    """Return the plan as Markdown."""
    return "\n".join(
        [
            *_format_work(stages, order, prices),
            "",
            *_format_queues(stages, order, prices),
            "",
            *_format_artifacts(stages, order, prices),
        ]
    )


def _format_work(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    rows = [
        "| stage | core-s/page | min/volume and machine | machine-hours | machines | cost |",
        "|---|---|---|---|---|---|",
    ]
    for stage in stages:
        hours = compute_machine_hours(stage, order)
        minutes = stage.core_seconds * order.pages_per_volume / order.machine_cores / 60
        rows.append(
            f"| {stage.name} | {stage.core_seconds:.2f} | {minutes:.1f} | {hours:,.0f} | "
            f"{count_machines(stage, order):,} | ${hours * prices.machine_hour:,.0f} |"
        )
    hours = sum(compute_machine_hours(stage, order) for stage in stages)
    count = sum(count_machines(stage, order) for stage in stages)
    rows.append(
        f"| **all** | {sum(s.core_seconds for s in stages):.2f} | | {hours:,.0f} | {count:,} | "
        f"**${hours * prices.machine_hour:,.0f}** |"
    )
    return rows


def _format_queues(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    attempts = order.volumes * len(stages)
    count = sum(count_machines(stage, order) for stage in stages)
    seconds = sum(s.core_seconds for s in stages) * order.images / order.machine_cores
    requests = REQUESTS * attempts + seconds / HEARTBEAT_SECONDS
    calls = count / HEARTBEAT_SECONDS + CALLS * attempts / (order.days * 24 * HOUR)
    return [
        f"- Messages: {attempts:,}, of which up to {WINDOW} of a job wait for a stage at a time.",
        (
            f"- Postgres: {calls:,.1f} calls a second ({count:,} workers, a heartbeat every "
            f"{HEARTBEAT_SECONDS} s); rows: {order.volumes:,} tasks, {attempts:,} attempts, "
            f"{order.volumes:,} results."
        ),
        (
            f"- SQS instead of pgmq: {requests / 1e6:,.1f} million requests, "
            f"${requests * prices.request:,.0f}."
        ),
    ]


def _format_artifacts(stages: list[Stage], order: Order, prices: Prices) -> list[str]:
    rows = [
        "| stage | Parquet of a volume | Parquet | images | objects | PUTs | a month |",
        "|---|---|---|---|---|---|---|",
    ]
    for stage in stages:
        tables = stage.table_bytes * order.images / GIGABYTE
        images = stage.image_bytes * order.images / GIGABYTE
        objects = stage.images * order.images + (order.volumes if stage.table_bytes else 0)
        per_volume = stage.table_bytes * order.pages_per_volume / 1e6
        rows.append(
            f"| {stage.name} | {per_volume:.1f} MB | {tables:,.0f} GB | {images:,.0f} GB | "
            f"{objects / 1e6:,.1f} million | ${objects * prices.put:,.0f} | "
            f"${(tables + images) * prices.gigabyte_month:,.0f} |"
        )
    return rows


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="take rates from a job")
    collecting.add_argument("status", type=Path, help="output of `volumes status JOB --json`")
    collecting.add_argument("folder", type=Path, help="the folder of the job's artifacts")
    collecting.add_argument("--cores", type=int, required=True, help="cores available to a worker")
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
    """Run the command."""
    arguments = _parse_arguments()
    if arguments.command == "collect":
        output = json.dumps(
            read_measurements(arguments.status, arguments.folder, arguments.cores), indent=2
        )
    else:
        order = Order(arguments.volumes, arguments.images, arguments.days, arguments.machine_cores)
        prices = Prices(
            arguments.machine_hour, arguments.gigabyte_month, arguments.put, arguments.request
        )
        output = format_plan(
            parse_stages(json.loads(arguments.rates.read_text("utf-8"))), order, prices
        )
    sys.stdout.write(f"{output}\n")


if __name__ == "__main__":
    main()
