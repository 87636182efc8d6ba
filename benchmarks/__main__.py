"""python -m benchmarks NAME: what is measured, one command each."""

from __future__ import annotations

import typer

from pagewarden import cli
from pagewarden.commands import deferred

COMMANDS = {
    "queue": deferred.Deferred(
        "benchmarks.queue",
        "Measure our queue beside pgmq, procrastinate and pgqueuer on the same server.",
    ),
    "ocr": deferred.Deferred(
        "benchmarks.ocr",
        "Measure how well and how fast we read, beside RapidOCR, Tesseract and OCRmyPDF.",
    ),
    "layers": deferred.Deferred(
        "benchmarks.layers",
        "Read the text layers of a folder of PDFs on one core, beside pdftotext.",
    ),
    "memory": deferred.Deferred(
        "benchmarks.memory",
        "Read a scan of 10 pages and a long one, and compare the peaks of memory.",
    ),
    "pipeline": deferred.Deferred(
        "benchmarks.pipeline",
        "Measure the way of a document through the whole system, in a system of its own.",
    ),
    "pool": deferred.Deferred(
        "benchmarks.pool",
        "Compare the pool with a fixed split, then measure real programs on a real database.",
    ),
    "dashboard": deferred.Deferred(
        "benchmarks.dashboard",
        "Measure how soon every page of the dashboard answers, in a system of its own.",
    ),
    "checks": deferred.Deferred(
        "benchmarks.checks",
        "Draw screens in ten languages, plant faults, and measure which of them a check finds.",
    ),
    "jobs": deferred.Deferred(
        "benchmarks.jobs",
        "Submit check jobs to a system of its own: timed one by one, then many at once.",
    ),
    "load": deferred.Deferred(
        "benchmarks.load",
        "Load a system of its own to the knee and for long, with a full database.",
    ),
    "volumes": deferred.Deferred(
        "benchmarks.volumes",
        "Measure the stages of volumes: lines found, text, speed, memory.",
    ),
    "chaos": deferred.Deferred(
        "benchmarks.chaos",
        "Kill, stop and cut off the parts of a system of its own while it reads documents.",
    ),
    "fuzz": deferred.Deferred(
        "benchmarks.fuzz",
        "Break files at random and read them: each ends in pages or one typed error.",
    ),
    "hostile": deferred.Deferred(
        "benchmarks.fuzz",
        "Read every file of a folder as it is, a hundred at a time, in any order.",
        "hostile",
    ),
}

app = typer.Typer(
    help="Measure Pagewarden beside its peers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
deferred.mount(app, COMMANDS)


def main() -> None:
    """Run the benchmark that is named."""
    cli.run(app, "benchmarks")


if __name__ == "__main__":
    main()
