"""The commands `pagewarden bench fuzz` and `pagewarden bench hostile`: bad files in, none of harm.

Parsing only, with the null engine.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden.bench import mutation, seeds, trial

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

MB = 1e6
MAX_SEED_BYTES = 1 << 20
"""Of real files only small ones are mutated, or most of the time would go into reading them."""


def command(
    *,
    count: Annotated[int, typer.Option(min=1, help="How many files to break.")] = 10_000,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Break the files of this folder too.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same number breaks files in the same way.")] = 1,
    first: Annotated[int, typer.Option(min=1, help="Number of the first file, to repeat it.")] = 1,
) -> None:
    """Break files at random and read them: each ends in pages or one typed error."""
    originals = {**seeds.all_kinds(), **_small_files(corpus)}
    _finish(trial.run(broken(originals, seed, range(first, first + count))))


def hostile(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Files to read.")],
    *,
    seed: Annotated[int, typer.Option(help="The same number reads them in the same order.")] = 1,
) -> None:
    """Read every file of a folder as it is, a hundred at a time, in any order."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)  # noqa: S311  # no secret
    _finish(trial.run((str(path.relative_to(folder)), path) for path in files))


def broken(
    originals: Mapping[str, bytes], seed: int, numbers: range
) -> Iterator[tuple[str, bytes]]:
    """Break one original for each number; seed and number decide which, and how."""
    names = sorted(originals)
    for number in numbers:
        chance = random.Random(f"{seed}:{number}")  # noqa: S311  # no secret
        name = chance.choice(names)
        yield f"no. {number} of {name}", mutation.mutate(originals[name], chance)


def _small_files(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    found = (path for path in folder.rglob("*") if path.is_file())
    small = (path for path in found if path.stat().st_size <= MAX_SEED_BYTES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in small}


def _finish(running: Coroutine[None, None, trial.Report]) -> None:
    report = asyncio.run(running)
    console = Console(highlight=False)
    console.print(report.table())
    before, after = report.memory_before / MB, report.memory_after / MB
    console.print(f"our own process is alive; {before:.0f} MB early on, {after:.0f} MB at the end")
    for ending in report.unexpected:
        console.print(f"unexpected: {ending.said}", markup=False)
    sys.exit(bool(report.unexpected))
