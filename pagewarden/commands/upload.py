"""pagewarden upload: files go to a server, their text comes back."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import bars, client, exports, files, settings
from pagewarden.commands import ending, options
from pagewarden.ocr_command import inputs
from pagewarden.uploading import shown, work

if TYPE_CHECKING:
    from collections.abc import Sequence

_STANDARD = "standard-input"


def command(  # noqa: PLR0913  # each is an option of the command
    paths: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Files, or - for standard input.")
    ],
    *,
    case: options.Case = None,
    lang: options.Lang = None,
    engine: options.Engine = None,
    profile: options.Profile = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until they are read, and print the text.")
    ] = False,
    formats: Annotated[
        str, typer.Option("--format", help=f"Formats wanted, of {','.join(exports.FORMATS)}.")
    ] = "txt",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the results, with --wait."),
    ] = None,
    existing: Annotated[
        inputs.Existing, typer.Option(help="What to do where there is a result already.")
    ] = inputs.Existing.REFUSE,
    name: Annotated[
        str | None, typer.Option(help="What to call standard input, such as letter.pdf.")
    ] = None,
    url: options.Url = None,
) -> None:
    """Upload images and PDFs to a Pagewarden server, which reads them.

    Prints a line for each: id, "new" or "already there", name, and the
    address to ask; between them are tabs. With --wait it prints the text
    instead, or writes it to the folder of -o.

    Whoever signed in with `pagewarden login` uploads as that person;
    otherwise, on the machine of the server, it is the server's own doing.

    Exit code 0: all was uploaded, and with --wait read. 1: some was not;
    which, why, and what to do is said at the end. 2: the command makes no
    sense, and nothing was done. 130: Ctrl-C; what is uploaded is read.
    """
    chosen = settings.load()
    with tempfile.TemporaryDirectory(prefix="pagewarden-") as scratch:
        try:
            order = work.Order(
                wishes=options.wishes(case, lang, engine, profile),
                formats=inputs.known(formats.split(","), exports.FORMATS) if wait else (),
                folder=output,
                scratch=Path(scratch),
            )
            items = _find(paths, order, name, existing)
        except inputs.Wrong as exc:
            raise typer.BadParameter(str(exc)) from exc
        if inputs.STANDARD in paths:
            inputs.take_standard_input(Path(scratch, _STANDARD), limit=chosen.upload_max_bytes)
        sys.exit(_run(chosen, url, order, items))


def _find(
    words: Sequence[str], order: work.Order, name: str | None, existing: inputs.Existing
) -> Sequence[inputs.Input]:
    """Find the files, and refuse what could not be done to the end."""
    if (name is None) is (inputs.STANDARD in words):
        raise inputs.Wrong("--name says what standard input (-) is called; use both, or none")
    for word in words:
        if word != inputs.STANDARD and Path(word).is_dir():
            raise inputs.Wrong(f"{word} is a folder; take it in with `pagewarden import {word}`")
    called = name or _STANDARD
    standard = inputs.Input(order.scratch / _STANDARD, called, Path(Path(called).stem))
    _require_names(words, called)
    found: Sequence[inputs.Input] = inputs.find(words, standard=standard)
    if order.folder is not None:
        if not order.formats:
            raise inputs.Wrong("-o is for the text, so it needs --wait")
        found = inputs.check_folder(found, order.formats, order.folder, existing)
    elif order.formats:
        inputs.check_printing(found, order.formats)
    return found


def _require_names(words: Sequence[str], called: str) -> None:
    """Refuse files that would become versions of one another."""
    named = {Path(word).resolve(): Path(word).name for word in words if word != inputs.STANDARD}
    names = [*named.values(), *([called] if inputs.STANDARD in words else [])]
    for name, uses in Counter(map(files.safe_name, names)).items():
        if uses > 1:
            raise inputs.Wrong(
                f"{uses} of the files are called {name}, so one would replace the other; take "
                "in their folder with `pagewarden import`, or put them into different cases"
            )


def _run(
    chosen: settings.Settings, url: str | None, order: work.Order, items: Sequence[inputs.Input]
) -> int:
    seen = shown.Shown(Console(stderr=True, highlight=False))
    outcome = work.Outcome()

    async def upload() -> None:
        async with client.open_client(chosen, url) as server:
            await work.Work(server, order, seen, outcome).run(items)

    try:
        with seen.bars():
            asyncio.run(ending.until_terminated(upload()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        _say_interrupted(seen, outcome)
        return ending.INTERRUPTED
    finally:
        _print(order, items, outcome)
    _sum_up(seen, items, outcome)
    return ending.SOME_FAILED if outcome.failures else 0


def _print(order: work.Order, items: Sequence[inputs.Input], outcome: work.Outcome) -> None:
    """Print to standard output, when no bar is in the way any more."""
    out = sys.stdout.buffer
    for item in items:
        accepted = outcome.uploads.get(item)
        if accepted is not None and not order.formats:
            state = "already there" if accepted.existing else "new"
            fields = (accepted.document_id, state, item.name, accepted.status_url)
            out.write("\t".join(fields).encode(errors="surrogateescape") + b"\n")
        for result in outcome.results.get(item, []) if order.folder is None else []:
            if len(items) > 1:
                out.write(f"==> {item.name} <==\n".encode(errors="surrogateescape"))
            with result.open("rb") as file:
                shutil.copyfileobj(file, out)
    out.flush()


def _say_interrupted(seen: shown.Shown, outcome: work.Outcome) -> None:
    under_way = outcome.under_way()
    seen.say("interrupted; the same command again uploads nothing twice")
    if under_way:
        seen.say("Uploaded, and read on by the server:")
    for accepted in under_way:
        seen.say(f"  {accepted.name}: {accepted.status_url}")


def _sum_up(seen: shown.Shown, items: Sequence[inputs.Input], outcome: work.Outcome) -> None:
    if not items:
        seen.say("nothing to do: every result is there already")
        return
    there = sum(accepted.existing for accepted in outcome.uploads.values())
    said = f"{bars.count(len(outcome.uploads) - there, 'file')} uploaded"
    seen.say(f"{said}, {there:,} already there" if there else said)
    if outcome.failures:
        seen.say("Not done:")
    for failure in outcome.failures:
        seen.say(f"  {failure}")
