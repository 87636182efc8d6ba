"""pagewarden check: is the text in pictures what it should be? No server, no database."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import bars, errors, settings
from pagewarden.check_command import expected, showing, work
from pagewarden.checks import languages
from pagewarden.commands import ending
from pagewarden.ocr_command import inputs
from pagewarden.reading import engines, reader

if TYPE_CHECKING:
    from collections.abc import Sequence


def command(  # noqa: PLR0913  # each is an option of the command
    files: Annotated[
        list[str], typer.Argument(help="Pictures, or folders with all that is in them.")
    ],
    *,
    language: Annotated[
        str | None,
        typer.Option(
            help="The language that the text should be in, such as fr or pt-BR. Default: "
            "PAGEWARDEN_CHECK_LANGUAGE; without either, the language is not checked."
        ),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Expected strings of each picture: JSON or CSV."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word that may stand in any language, such as a name."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    engine: Annotated[
        str, typer.Option(help=f"What reads: {', '.join(engines.ENGINES)}.")
    ] = engines.DEFAULT,
    profile: Annotated[
        str, typer.Option(help=f"How to weigh speed and accuracy: {', '.join(engines.PROFILES)}.")
    ] = engines.BALANCED,
    processes: Annotated[
        int | None, typer.Option("-j", min=1, help="Processes. Default: one for each core.")
    ] = None,
) -> None:
    """Check whether pictures have the text they should have, in the right language.

    What should be on picture.png is read from picture.txt beside it, a
    string on each line, or from --references: JSON such as
    {"picture.png": ["a string"]}, or CSV with the columns image and text.
    Without either, the language is checked, and faults that show in the text itself. Without
    --language, strings and faults are checked, and the language is not.

    Exit code 0: every picture is a PASS. 1: some are for a person to look
    at (MANUAL), or could not be read. 2: the command makes no sense, and nothing was done.
    """
    try:
        wanted = language or settings.load().check_language
        order = work.Order(languages.find(wanted) if wanted else None, allow or ())
        engines.find(engine)
        inputs.known([profile], engines.PROFILES)
        pictures = _find(files, references)
    except (inputs.Wrong, languages.Unknown, errors.EngineMissing) as exc:
        raise typer.BadParameter(str(exc)) from exc
    source = reader.Reader(engine=engine, profile=profile, processes=processes)
    sys.exit(_run(source, pictures, order, as_json=as_json))


def _find(files: Sequence[str], references: Path | None) -> list[work.Picture]:
    if inputs.STANDARD in files:
        raise inputs.Wrong("pictures have names, so standard input is not read; name a file")
    nowhere = inputs.Input(Path(inputs.STANDARD), inputs.STANDARD, Path(inputs.STANDARD))
    items = inputs.find(files, standard=nowhere)
    strings = expected.find(items, references)
    return [work.Picture(item, text) for item, text in zip(items, strings, strict=True)]


def _run(
    source: reader.Reader, pictures: Sequence[work.Picture], order: work.Order, *, as_json: bool
) -> int:
    console = Console(stderr=True, highlight=False)
    results: list[work.Result] = []

    async def check() -> None:
        results.extend(await work.run(source, pictures, order, lambda: bar.advance(task)))

    bar = bars.one_bar(console)
    bar.disable = not console.is_terminal
    task = bar.add_task("checking", total=len(pictures), unit="pictures")
    try:
        with bar:
            asyncio.run(ending.until_terminated(check()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        bars.say(console, "interrupted; nothing was kept")
        return ending.INTERRUPTED
    _show(results, console, as_json=as_json)
    return 0 if showing.passed(results) else ending.SOME_FAILED


def _show(results: Sequence[work.Result], console: Console, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(showing.as_json(results) + "\n")
    else:
        Console(highlight=False).print(showing.table(results))
    bars.say(console, showing.summary(results))
