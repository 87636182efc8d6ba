"""`pagewarden ocr`: read files locally, without server or database."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import errors, exports
from pagewarden.cli import options, program, progress
from pagewarden.exports import sandbox
from pagewarden.ocr import engines, reader
from pagewarden.ocr.pages import TextSource, Usage

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence


class OcrProgress:
    """A bar on a terminal, otherwise a line per file; a summary at the end.

    The page count of files that are not yet opened is estimated.
    """

    def __init__(self, console: Console, files: int) -> None:
        self._console = console
        self._files = files
        self._started_at = time.monotonic()
        self._opened_files = 0
        self._known_pages = 0
        self._bar = progress.make_progress_bar(console)
        self._task = self._bar.add_task("starting", total=None, unit="pages")

    @contextlib.contextmanager
    def show(self) -> Iterator[None]:
        """Show a progress bar if the output is a terminal."""
        with self._bar if self._console.is_terminal else contextlib.nullcontext():
            yield

    def start_file(self, page_count: int) -> None:
        """Count the pages of an opened file."""
        self._opened_files += 1
        self._known_pages += page_count
        self._bar.update(
            self._task,
            total=self._known_pages * self._files // self._opened_files,
            description=f"file {self._opened_files} of {self._files}",
        )

    def advance(self) -> None:
        """Count a finished page."""
        self._bar.advance(self._task)

    def finish_file(
        self, name: str, pages_read: int = 0, failed_pages: int = 0, targets: Iterable[str] = ()
    ) -> None:
        """Print the result of a file, unless a progress bar is shown."""
        if not self._console.is_terminal:
            parts = [
                f"{progress.format_count(pages_read, 'page')} read" if pages_read else "not read"
            ]
            parts += (
                [f"{progress.format_count(failed_pages, 'page')} failed"] if failed_pages else []
            )
            self.print_line(f"{name}: {', '.join([*parts, *targets])}")

    def print_line(self, line: str) -> None:
        """Print a line without markup."""
        progress.print_line(self._console, line)

    def print_summary(self, outcome: Outcome) -> None:
        """Print page count, duration, cost and failures."""
        seconds = time.monotonic() - self._started_at
        self.print_line(f"{progress.format_count(outcome.read, 'page')} read in {seconds:.1f} s")
        if outcome.tokens:
            self.print_line(f"{outcome.tokens:,} tokens, about ${outcome.cost_usd:.4f}")
        if outcome.failures:
            self.print_line("Failed:")
        for failure in outcome.failures:
            self.print_line(f"  {failure}")


_PART = re.compile(r"(?P<first>\d+)?(?P<dash>-)?(?P<last>\d+)?")


@dataclass(frozen=True, slots=True)
class ExcludedPages:
    """All pages outside the ranges; ranges include both ends."""

    ranges: tuple[tuple[float, float], ...]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and not any(
            first <= number <= last for first, last in self.ranges
        )


def parse_selection(text: str) -> ExcludedPages:
    """Parse a page selection such as 1-3,7,10-; return the pages to skip."""
    return ExcludedPages(tuple(_parse_range(part.strip()) for part in text.split(",")))


def _parse_range(part: str) -> tuple[float, float]:
    match = _PART.fullmatch(part)
    if match is None or not (match["first"] or match["last"]):
        raise _invalid_range_error(part)
    first = int(match["first"] or 1)
    last = int(match["last"]) if match["last"] else float("inf") if match["dash"] else first
    if not 1 <= first <= last:
        raise _invalid_range_error(part)
    return first, last


def _invalid_range_error(part: str) -> options.UsageError:
    return options.UsageError(
        f"{part!r} is not a valid page range; use 3, 1-3, 10- or a list such as 1-3,10-"
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options for all files; without a folder, results are printed from files in `scratch`."""

    formats: Sequence[str]
    folder: Path | None
    scratch: Path
    languages: tuple[str, ...] = ()
    password: str | None = None
    excluded_pages: Container[int] = frozenset()

    @property
    def standard_input(self) -> options.InputFile:
        """The file that holds standard input, which may be read more than once."""
        return options.InputFile(
            self.scratch / "standard-input", "standard input", Path("standard-input")
        )


@dataclass(slots=True)
class Outcome:
    """The number of pages read, error messages for the rest, and the cost."""

    read: int = 0
    failures: list[str] = field(default_factory=list)
    tokens: int = 0
    cost_usd: float = 0.0

    def add(self, usage: Usage) -> None:
        """Add the cost of a page."""
        self.tokens += usage.input_tokens + usage.output_tokens
        self.cost_usd += usage.cost_usd


class OcrRun:
    """Reads the files of one command concurrently; a failure does not stop the others."""

    def __init__(
        self, source: reader.Reader, run_options: RunOptions, file_progress: OcrProgress
    ) -> None:
        self._reader = source
        self._options = run_options
        self._progress = file_progress
        self.outcome = Outcome()
        self._has_printed = False

    async def run(self, items: Sequence[options.InputFile]) -> None:
        """Read files, as many at a time as there are processes; print results in order."""
        async with self._reader:
            slots = asyncio.Semaphore(self._reader.processes)
            tasks = [asyncio.create_task(self._process(item, slots)) for item in items]
            try:
                for task in tasks:
                    self._print(await task)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _process(self, item: options.InputFile, slots: asyncio.Semaphore) -> list[Path]:
        """Read a file and write its results; record an error instead of raising it."""
        async with slots:
            try:
                with sandbox.open_spool(self._reader) as spool:
                    return await self._convert(item, spool)
            except errors.ReadingError as exc:
                self.outcome.failures.append(str(exc))
            except OSError as exc:
                why = f"{exc.strerror}: {exc.filename}" if exc.filename else str(exc)
                self.outcome.failures.append(
                    f"{item.name}: the result could not be saved ({why}). Check the output folder."
                )
            self._progress.finish_file(item.name)
            return []

    async def _convert(self, item: options.InputFile, spool: sandbox.PageSpool) -> list[Path]:
        read, failed = await self._read(item, spool)
        if not read + failed:
            raise errors.ReadingError(f"{item.name}: it contains none of the selected pages.")
        if not read:
            self._progress.finish_file(item.name)
            return []
        folder = self._options.folder or self._options.scratch
        targets = item.list_targets(folder, self._options.formats)
        for name, target in targets.items():
            await self._write(name, item, spool, target)
        saved = map(str, targets.values()) if self._options.folder else ()
        self._progress.finish_file(item.name, read, failed, saved)
        return list(targets.values())

    async def _read(self, item: options.InputFile, spool: sandbox.PageSpool) -> tuple[int, int]:
        """Spool the pages to disk; return how many were read and how many failed."""
        read = failed = 0
        source = self._reader.read(
            item.path,
            name=item.name,
            languages=self._options.languages,
            password=self._options.password,
            skip=self._options.excluded_pages,
            on_open=self._start_file,
        )
        async with contextlib.aclosing(source):
            async for page in source:
                spool.add(page)
                if page.source is TextSource.FAILED:
                    failed += 1
                    self.outcome.failures.append(str(page.error))
                else:
                    read += 1
                self.outcome.add(page.usage)
                self._progress.advance()
        self.outcome.read += read
        return read, failed

    def _start_file(self, count: int) -> None:
        excluded = self._options.excluded_pages
        self._progress.start_file(sum(number not in excluded for number in range(1, count + 1)))

    async def _write(
        self, format_name: str, item: options.InputFile, spool: sandbox.PageSpool, target: Path
    ) -> None:
        export = sandbox.ExportJob(
            format=format_name,
            pages=spool,
            source=item.path,
            name=item.name,
            languages=self._options.languages,
            password=self._options.password,
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        await sandbox.write_export(self._reader, export, target)

    def _print(self, results: Sequence[Path]) -> None:
        """Copy results to standard output, separated by form feeds as pages are."""
        if self._options.folder is not None:
            return
        for result in results:
            if self._has_printed:
                sys.stdout.buffer.write(b"\f")
            with result.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            self._has_printed = True


def command(  # noqa: PLR0913  # each is an option of the command
    files: Annotated[
        list[str],
        typer.Argument(help="Files, folders (with subfolders), or - for standard input."),
    ],
    *,
    engine: Annotated[
        str, typer.Option(help=f"OCR engine: {', '.join(engines.ENGINES)}.")
    ] = engines.DEFAULT,
    profile: Annotated[
        str, typer.Option(help=f"OCR profile (speed or accuracy): {', '.join(engines.PROFILES)}.")
    ] = engines.BALANCED,
    lang: Annotated[str, typer.Option(help="Languages of the text, such as deu,fra.")] = "",
    formats: Annotated[
        str,
        typer.Option(
            "--format", help=f"Output formats, comma-separated: {', '.join(exports.FORMATS)}."
        ),
    ] = "txt",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Output folder; - prints the results to standard output.",
        ),
    ] = options.STANDARD_INPUT,
    pages: Annotated[str, typer.Option(help="Pages to read, such as 1-3,7,10-.")] = "1-",
    password: Annotated[str | None, typer.Option(help="Password of encrypted PDFs.")] = None,
    existing: Annotated[
        options.OverwritePolicy, typer.Option(help="What to do if a result already exists.")
    ] = options.OverwritePolicy.REFUSE,
    processes: Annotated[
        int | None,
        typer.Option("-j", min=1, help="Number of OCR processes. Default: one per core."),
    ] = None,
) -> None:
    """Read images and PDFs, and write text, searchable PDFs or other formats.

    Without -o, the command prints the text of any number of files, or one
    file in one other format. With -o, it writes the results to that folder
    under the names of the files; a result is written completely or not at
    all.

    Exit code 0: everything was read. 1: something failed; the summary says
    what, why and what to do. 2: invalid arguments; nothing was done.
    130: interrupted; finished results are kept.
    """
    with tempfile.TemporaryDirectory(prefix="pagewarden-") as scratch:
        try:
            run_options = RunOptions(
                formats=options.parse_choices(formats.split(","), exports.FORMATS),
                folder=None if output == options.STANDARD_INPUT else Path(output),
                scratch=Path(scratch),
                languages=tuple(lang.replace("+", ",").split(",")) if lang else (),
                password=password,
                excluded_pages=parse_selection(pages),
            )
            engines.find_engine(engine)
            options.parse_choices([profile], engines.PROFILES)
            items = _find_inputs(files, run_options, existing)
        except (options.UsageError, errors.EngineNotInstalled) as exc:
            raise typer.BadParameter(str(exc)) from exc
        if options.STANDARD_INPUT in files:
            options.save_standard_input(
                run_options.standard_input.path, limit=reader.DEFAULT_LIMITS.file_bytes
            )
        source = reader.Reader(
            engine=engine, profile=profile, processes=processes, preload=sandbox.PRELOAD
        )
        sys.exit(_run(source, items, run_options))


def _find_inputs(
    files: Sequence[str], run_options: RunOptions, existing: options.OverwritePolicy
) -> Sequence[options.InputFile]:
    found = options.find_inputs(
        files, standard_input=run_options.standard_input, exclude=run_options.folder
    )
    if run_options.folder is not None:
        return options.apply_overwrite_policy(
            found, run_options.formats, run_options.folder, existing
        )
    options.require_printable(found, run_options.formats)
    return found


def _run(source: reader.Reader, items: Sequence[options.InputFile], run_options: RunOptions) -> int:
    file_progress = OcrProgress(Console(stderr=True, highlight=False), len(items))
    if not items:
        file_progress.print_line("nothing to do: all results already exist")
        return 0
    ocr_run = OcrRun(source, run_options, file_progress)
    try:
        with file_progress.show():
            asyncio.run(program.run_until_terminated(ocr_run.run(items)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        file_progress.print_line(
            "interrupted; finished results were kept, partial results were discarded"
        )
        return program.INTERRUPTED
    finally:
        file_progress.print_summary(ocr_run.outcome)
    return program.SOME_FAILED if ocr_run.outcome.failures else 0
