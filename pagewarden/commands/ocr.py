"""pagewarden ocr: files in, text out; no server, no database."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import errors, exports
from pagewarden.commands import ending
from pagewarden.ocr_command import inputs, progress, selection, work
from pagewarden.reading import engines, reader

if TYPE_CHECKING:
    from collections.abc import Sequence


def command(  # noqa: PLR0913  # each is an option of the command
    files: Annotated[
        list[str],
        typer.Argument(help="Files, folders (with all that is in them), or - for standard input."),
    ],
    *,
    engine: Annotated[
        str, typer.Option(help=f"What reads: {', '.join(engines.ENGINES)}.")
    ] = engines.DEFAULT,
    profile: Annotated[
        str, typer.Option(help=f"How to weigh speed and accuracy: {', '.join(engines.PROFILES)}.")
    ] = engines.BALANCED,
    lang: Annotated[str, typer.Option(help="Languages of the text, such as deu,fra.")] = "",
    formats: Annotated[
        str, typer.Option("--format", help=f"Formats wanted, of {','.join(exports.FORMATS)}.")
    ] = "txt",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for the results; - prints them."
        ),
    ] = inputs.STANDARD,
    pages: Annotated[str, typer.Option(help="Pages to read, such as 1-3,7,10-.")] = "1-",
    password: Annotated[str | None, typer.Option(help="Password of protected PDFs.")] = None,
    existing: Annotated[
        inputs.Existing, typer.Option(help="What to do where there is a result already.")
    ] = inputs.Existing.REFUSE,
    processes: Annotated[
        int | None, typer.Option("-j", min=1, help="Processes. Default: one for each core.")
    ] = None,
) -> None:
    """Read images and PDFs: text, JSON, searchable PDF, hOCR, ALTO, PAGE-XML.

    Without -o the result is printed: the text of any number of files,
    or one file in one other format. With -o every file has its results
    in that folder, under its own name; they appear whole or not at all.

    Exit code 0: all was read. 1: some was not; what it was, why, and what
    to do about it is said at the end. 2: the command makes no sense, and
    nothing was done.
    """
    with tempfile.TemporaryDirectory(prefix="pagewarden-") as scratch:
        try:
            order = work.Order(
                formats=inputs.known(formats.split(","), exports.FORMATS),
                folder=None if output == inputs.STANDARD else Path(output),
                scratch=Path(scratch),
                languages=tuple(lang.replace("+", ",").split(",")) if lang else (),
                password=password,
                unchosen=selection.parse(pages),
            )
            engines.find(engine)
            inputs.known([profile], engines.PROFILES)
            items = _find(files, order, existing)
        except (inputs.Wrong, errors.EngineMissing) as exc:
            raise typer.BadParameter(str(exc)) from exc
        if inputs.STANDARD in files:
            inputs.take_standard_input(order.standard_input.path, limit=reader.LIMITS.file_bytes)
        source = reader.Reader(engine=engine, profile=profile, processes=processes)
        sys.exit(_run(source, items, order))


def _find(
    files: Sequence[str], order: work.Order, existing: inputs.Existing
) -> Sequence[inputs.Input]:
    found = inputs.find(files, standard=order.standard_input, leave_out=order.folder)
    if order.folder is not None:
        return inputs.check_folder(found, order.formats, order.folder, existing)
    inputs.check_printing(found, order.formats)
    return found


def _run(source: reader.Reader, items: Sequence[inputs.Input], order: work.Order) -> int:
    shown = progress.Progress(Console(stderr=True, highlight=False), len(items))
    if not items:
        shown.say("nothing to do: every result is there already")
        return 0
    at_work = work.Work(source, order, shown)
    try:
        with shown.bar():
            asyncio.run(ending.until_terminated(at_work.run(items)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        shown.say("interrupted; what is finished is kept, and nothing is there by half")
        return ending.INTERRUPTED
    finally:
        shown.sum_up(at_work.outcome)
    return ending.SOME_FAILED if at_work.outcome.failures else 0
