#!/usr/bin/env python3
"""Compare the CPU time per document of two versions of the whole system, interleaved.

    PYTHONPATH=. .venv/bin/python scripts/compare_pipeline.py OLD NEW [--rounds N]

OLD and NEW are commits, or folders with a checkout. Both run with the Python of this script and its
packages. In every round each version starts in a new folder, as `pagewarden up` does, and gets the
same documents; the order alternates. The CPU time is user and system time of all processes,
Postgres included, from the first upload to the last completed document. The confidence interval is
that of the ratio of a round, by Student's t on its logarithm.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from PIL import Image, ImageDraw, ImageFont

from benchmarks import pipeline, sample_files
from benchmarks import system as systems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import httpx

ROOT = Path(__file__).resolve().parents[1]
# Versions differ in the module that is the command, but not in this function.
COMMAND = (sys.executable, "-c", "from pagewarden.cli import main; main()", "up")
WARM_UP = 12
SETTLE_SECONDS = 1.0
POLL_SECONDS = 0.5
A4_AT_150_DPI = (1240, 1754)
LINES = 30

# Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom.
_T = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060,
)  # fmt: skip
_T_LIMIT = 2.04


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one document in a round, in seconds."""

    programs: float
    postgres: float
    wall: float

    @property
    def cpu(self) -> float:
        """Return the CPU time of all processes."""
        return self.programs + self.postgres


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def compare(old: Sequence[float], new: Sequence[float]) -> Interval:
    """Return the ratio of new to old: geometric mean over the rounds, with its interval."""
    logs = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    mean = statistics.mean(logs)
    margin = math.inf
    if len(logs) > 1:
        t = _T[len(logs) - 2] if len(logs) - 2 < len(_T) else _T_LIMIT
        margin = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))


# Documents --------------------------------------------------------------------------------


def make_documents(count: int, corpus: Path | None) -> list[tuple[str, bytes]]:
    """Return names and contents: pages of a corpus, or drawn images, scans and text PDFs."""
    if corpus is None:
        contents = [_draw(number) for number in range(count)]
    else:
        from benchmarks.ocr import corpus as corpora  # noqa: PLC0415  # not always installed

        pages = corpora.sample(corpora.load(corpus), count)
        contents = [
            (pages[n % len(pages)].path.suffix, pages[n % len(pages)].path.read_bytes())
            for n in range(count)
        ]
    # Trailing bytes are ignored, but make each file a different document.
    return [
        (f"{number}{suffix}", content + f"\n% {number}\n".encode())
        for number, (suffix, content) in enumerate(contents)
    ]


def _draw(number: int) -> tuple[str, bytes]:
    if number % 3 == 0:
        return ".pdf", sample_files.make_text_pdf(3)
    page = Image.new("L", A4_AT_150_DPI, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    for line in range(LINES):
        text = f"{sample_files.WORDS}: {number}, {line}"
        draw.text((100, 100 + 50 * line), text, fill=0, font=font)
    buffer = io.BytesIO()
    kind = "PNG" if number % 3 == 1 else "PDF"
    page.save(buffer, kind)
    return f".{kind.lower()}", buffer.getvalue()


# Versions ---------------------------------------------------------------------------------


@contextlib.contextmanager
def open_checkout(name: str) -> Iterator[Path]:
    """Yield the folder of that name, or a temporary one with the files of that commit."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="pagewarden-compare-") as folder:
        Path(folder).chmod(0o755)  # the server may run as another account
        commit = f"{name}^{{commit}}"
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        compile_all = [sys.executable, "-m", "compileall", "-q", "pagewarden", "functions"]
        subprocess.run([*compile_all, "dashboard", "gpu_service"], cwd=folder, check=True)
        yield Path(folder)


async def measure(
    checkout: Path, documents: Sequence[tuple[str, bytes]], settings: dict[str, str]
) -> Cost:
    """Start the system of a checkout, and measure the documents after those of the warm-up."""
    with systems.prepare(**settings) as prepared:
        # Programs search the working directory first, children of the sandbox only PYTHONPATH.
        environment = {**prepared.environment, "PYTHONPATH": str(checkout)}
        installation = dataclasses.replace(prepared, environment=environment)
        async with (
            systems.open_installation(installation, COMMAND, folder=checkout) as system,
            system.client() as client,
        ):
            await _process(client, documents[:WARM_UP])
            await asyncio.sleep(SETTLE_SECONDS)
            before, start = _cpu_times(system), time.monotonic()
            await _process(client, documents[WARM_UP:])
            wall = time.monotonic() - start
            await asyncio.sleep(SETTLE_SECONDS)
            after = _cpu_times(system)
    count = len(documents) - WARM_UP
    programs, postgres = ((b - a) / count for a, b in zip(before, after, strict=True))
    return Cost(programs, postgres, wall / count)


async def _process(client: httpx.AsyncClient, documents: Sequence[tuple[str, bytes]]) -> None:
    """Upload documents and wait until all are completed."""
    uploads = asyncio.Semaphore(pipeline.UPLOADS_AT_A_TIME)

    async def upload(name: str, content: bytes) -> str:
        async with uploads:
            return await pipeline.upload(client, name, content)

    ids = await asyncio.gather(*(upload(*document) for document in documents))
    for document in ids:
        await pipeline.wait_until_done(client, document, poll_seconds=POLL_SECONDS)


def _cpu_times(system: systems.System) -> tuple[float, float]:
    """Return the CPU seconds of all programs and of Postgres, including ended children."""
    postgres = system.database()
    servers = {postgres, *postgres.children(recursive=True)}
    root = psutil.Process(system.process.pid)
    programs = {root, *root.children(recursive=True)} - servers
    return _sum_cpu_times(programs), _sum_cpu_times(servers)


def _sum_cpu_times(processes: set[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


# The command ------------------------------------------------------------------------------


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run_rounds(
    checkouts: Sequence[Path],
    documents: Sequence[tuple[str, bytes]],
    settings: dict[str, str],
    rounds: int,
) -> list[list[Cost]]:
    """Measure both versions in every round and print each round; return the costs by version."""
    costs: list[list[Cost]] = [[], []]
    _print("| round | old, CPU s | new, CPU s | new / old |\n|---|---|---|---|")
    for number in range(1, rounds + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            costs[side].append(asyncio.run(measure(checkouts[side], documents, settings)))
        old, new = costs[0][-1].cpu, costs[1][-1].cpu
        _print(f"| {number} | {old:.4f} | {new:.4f} | {new / old:.3f} |")
    return costs


def format_summary(costs: Sequence[Sequence[Cost]]) -> str:
    """Format the means, ratios and confidence intervals as Markdown."""
    lines = [
        "| seconds per document | old | new | new / old | 95 % confidence |",
        "|---|---|---|---|---|",
    ]
    for title, name in (
        ("CPU", "cpu"),
        ("CPU, programs", "programs"),
        ("CPU, Postgres", "postgres"),
        ("wall clock", "wall"),
    ):
        old, new = ([getattr(cost, name) for cost in side] for side in costs)
        ratio = compare(old, new)
        lines.append(
            f"| {title} | {statistics.mean(old):.4f} | {statistics.mean(new):.4f} | "
            f"{ratio.mean:.3f} | {ratio.low:.3f} to {ratio.high:.3f} |"
        )
    return "\n".join(lines)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="commit or folder")
    parser.add_argument("new", help="commit or folder")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--documents", type=int, default=240, help="measured in each round")
    parser.add_argument("--engine", default="null", help="default: null, which takes no time")
    parser.add_argument("--corpus", type=Path, help="read pages of this folder instead of drawn")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


def main() -> None:
    """Run all rounds and print the summary."""
    options = _parse_arguments()
    documents = make_documents(WARM_UP + options.documents, options.corpus)
    settings = {"engine": options.engine, "gpu_engine": options.engine}
    with open_checkout(options.old) as old, open_checkout(options.new) as new:
        costs = run_rounds((old, new), documents, settings, options.rounds)
    _print(
        f"\n{options.documents} documents, engine {options.engine}, {options.rounds} rounds, "
        f"{os.cpu_count()} cores: {options.old} and {options.new}\n\n{format_summary(costs)}"
    )
    if options.json:
        old_costs, new_costs = ([dataclasses.asdict(cost) for cost in side] for side in costs)
        options.json.write_text(json.dumps({"old": old_costs, "new": new_costs}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
