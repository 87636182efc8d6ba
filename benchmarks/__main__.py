"""python -m benchmarks NAME: the table of benchmarks."""

from __future__ import annotations

import typer

from pagewarden import cli

COMMANDS = {
    "queue": cli.LazyCommand(
        "benchmarks.queue",
        "Compare our queue with pgmq, procrastinate and pgqueuer on the same server.",
    ),
    "ocr": cli.LazyCommand(
        "benchmarks.ocr",
        "Compare accuracy and speed with RapidOCR, Tesseract and OCRmyPDF.",
    ),
    "layers": cli.LazyCommand(
        "benchmarks.layers",
        "Read the text layers of a folder of PDFs on one core and compare with pdftotext.",
    ),
    "memory": cli.LazyCommand(
        "benchmarks.memory",
        "Compare the peak memory for a scan of 10 pages and a long one.",
    ),
    "pipeline": cli.LazyCommand(
        "benchmarks.pipeline",
        "Measure latency and overhead of documents in a complete temporary system.",
    ),
    "pool": cli.LazyCommand(
        "benchmarks.pool",
        "Compare the pool with a fixed split in a simulation, then measure real programs.",
    ),
    "dashboard": cli.LazyCommand(
        "benchmarks.dashboard",
        "Measure the response time of every dashboard page in a temporary system.",
    ),
    "checks": cli.LazyCommand(
        "benchmarks.checks",
        "Check drawn screens with planted errors in ten languages; measure precision and recall.",
    ),
    "jobs": cli.LazyCommand(
        "benchmarks.jobs",
        "Submit check jobs to a temporary system: timed one by one, then many at once.",
    ),
    "load": cli.LazyCommand(
        "benchmarks.load",
        "Load a temporary system with a full database up to saturation, then soak it.",
    ),
    "functions": cli.LazyCommand(
        "benchmarks.functions",
        "Have documents of a second each read by one invocation each, and one after another.",
    ),
    "dispatch": cli.LazyCommand(
        "benchmarks.functions",
        "Kill dispatchers and invocations at random while they read documents.",
        "kill",
    ),
    "uploads": cli.LazyCommand(
        "benchmarks.uploads",
        "Upload a small and a large PDF with `pagewarden upload`, then one with a wrong digest.",
    ),
    "volumes": cli.LazyCommand(
        "benchmarks.volumes",
        "Measure the stages of volumes: detected lines, text, speed, memory.",
    ),
    "chaos": cli.LazyCommand(
        "benchmarks.chaos",
        "Kill, suspend and disconnect the parts of a temporary system while it reads documents.",
    ),
    "fuzz": cli.LazyCommand(
        "benchmarks.fuzz",
        "Read randomly corrupted files: each must end in pages or one typed error.",
    ),
    "hostile": cli.LazyCommand(
        "benchmarks.fuzz",
        "Read every file of a folder unchanged, a hundred at a time, in random order.",
        "hostile",
    ),
}

app = typer.Typer(
    help="Measure Pagewarden, and compare it with other software.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.add_commands(app, COMMANDS)


def main() -> None:
    """Run the command."""
    cli.run(app, "benchmarks")


if __name__ == "__main__":
    main()
