"""`pagewarden check`: check the text of pictures locally, without server or database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden import errors
from pagewarden.checks.references import (
    MAX_BYTES,
    InvalidReferences,
    References,
    parse_file,
    parse_lines,
)
from pagewarden.checks.rules import check as rules_check
from pagewarden.checks.rules import languages
from pagewarden.checks.rules.result import Issue, Verdict
from pagewarden.cli import options, program, progress
from pagewarden.ocr import engines, pages, reader
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.checks.rules.result import CheckResult

REFERENCE_SUFFIX = ".txt"


def find_references(
    items: Sequence[options.InputFile], file: Path | None
) -> list[list[str] | None]:
    """Return the expected strings of each picture, or None if there are none.

    They are in the file, or in a text file beside the picture. Raise `UsageError` if the file
    matches none of the pictures.
    """
    try:
        known = parse_file(str(file), _read_bytes(file)) if file else None
        found = [_find_strings(item, known) for item in items]
    except InvalidReferences as exc:
        raise options.UsageError(str(exc)) from exc
    if known is not None and not any(known.find(item.name) is not None for item in items):
        some = ", ".join(known.names[:3])
        raise options.UsageError(
            f"{file} has no strings for any of the pictures; it has strings for {some}"
        )
    return found


def _find_strings(item: options.InputFile, references: References | None) -> list[str] | None:
    strings = references.find(item.name) if references is not None else None
    text_file = item.path.with_suffix(REFERENCE_SUFFIX)
    if strings is None and text_file.is_file():
        return parse_lines(str(text_file), _read_bytes(text_file))
    return strings


def _read_bytes(path: Path) -> bytes:
    """Read a file, but not much beyond the size limit."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise options.UsageError(f"cannot read {path} ({exc.strerror}); check the path") from exc


UNREADABLE = "UNREADABLE"
_COLOURS = {Verdict.PASS: "green", Verdict.MANUAL: "yellow", UNREADABLE: "red"}


def make_table(results: Sequence[PictureResult]) -> Table:
    """Make a table of pictures with verdict and issues."""
    table = Table("picture", "verdict", "issues")
    for result in results:
        verdict = result.verdict
        report = result.report
        issues = "\n".join(map(_format_issue, report.issues)) if report else result.error
        table.add_row(Text(result.image), Text(verdict, _COLOURS[verdict]), Text(issues or ""))
    return table


def _format_issue(issue: Issue) -> str:
    position = ""
    if issue.quad is not None:
        box = pages.bounding_box(issue.quad)
        position = f" (at {box.left:.0f}, {box.top:.0f})"
    return f"{issue.severity}: {issue.kind}: {issue.message}{position}"


def summarize(results: Sequence[PictureResult]) -> str:
    """Count the pictures by verdict."""
    verdicts = [result.verdict for result in results]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in _COLOURS if verdict in verdicts]
    summary = f"{progress.format_count(len(results), 'picture')}: {', '.join(counts)}"
    unchecked = any(result.report and result.report.language is None for result in results)
    return (
        f"{summary}; the language was not checked because --language was not given"
        if unchecked
        else summary
    )


def format_json(results: Sequence[PictureResult]) -> str:
    """Return all results as a JSON list."""
    return json.dumps([_result_to_json(result) for result in results], ensure_ascii=False, indent=2)


def _result_to_json(result: PictureResult) -> dict[str, object]:
    found = {"image": result.image, "verdict": result.verdict}
    if result.report is None:
        return found | {"error": result.error}
    return found | result.report.as_json()


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options for all pictures; without a language, the language is not checked."""

    language: languages.Language | None
    allowed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and its expected strings, if known."""

    item: options.InputFile
    expected: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class PictureResult:
    """The report on a picture or on one page of a file, or the error that prevented it."""

    image: str
    report: CheckResult | None = None
    error: str | None = None

    @property
    def verdict(self) -> str:
        """The verdict, or `UNREADABLE`."""
        return UNREADABLE if self.report is None else self.report.verdict


async def check_all(
    document_reader: reader.Reader,
    pictures: Sequence[Picture],
    check_options: CheckOptions,
    advance: Callable[[], None],
) -> list[PictureResult]:
    """Check all pictures, as many at a time as there are processes; results keep their order."""
    slots = asyncio.Semaphore(document_reader.processes)

    async def check_one(picture: Picture) -> list[PictureResult]:
        async with slots:
            found = await _check(document_reader, picture, check_options)
        advance()
        return found

    async with document_reader:
        tasks = [asyncio.create_task(check_one(picture)) for picture in pictures]
        try:
            return [result for task in tasks for result in await task]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _check(
    document_reader: reader.Reader, picture: Picture, check_options: CheckOptions
) -> list[PictureResult]:
    name = picture.item.name
    try:
        found = await _read(document_reader, picture.item, check_options.language)
    except errors.ReadingError as exc:
        return [PictureResult(name, error=str(exc))]
    if len(found) == 1:
        return [await _check_page(name, found[0], picture, check_options)]
    if picture.expected is not None:
        why = (
            f"{name} has {len(found)} pages, so it is unclear which page should contain the "
            "strings."
        )
        return [PictureResult(name, error=f"{why} Check its pages one by one.")]
    return [
        await _check_page(f"{name}, page {page.number}", page, picture, check_options)
        for page in found
    ]


async def _read(
    source: reader.Reader, item: options.InputFile, language: languages.Language | None
) -> list[pages.ReadPage]:
    codes = (language.ocr_code,) if language else ()
    reading = source.read(item.path, name=item.name, languages=codes)
    async with contextlib.aclosing(reading) as found:
        return [page async for page in found]


async def _check_page(
    name: str, page: pages.ReadPage, picture: Picture, check_options: CheckOptions
) -> PictureResult:
    if page.source is pages.TextSource.FAILED:
        return PictureResult(name, error=page.error)
    report = await asyncio.to_thread(
        rules_check.check, page, picture.expected, check_options.language, check_options.allowed
    )
    return PictureResult(name, report)


def command(  # noqa: PLR0913  # each is an option of the command
    files: Annotated[list[str], typer.Argument(help="Pictures, or folders of pictures.")],
    *,
    language: Annotated[
        str | None,
        typer.Option(
            help="Expected language, such as fr or pt-BR. Default: PAGEWARDEN_CHECK_LANGUAGE; "
            "if neither is set, the language is not checked."
        ),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON or CSV file with the expected strings of each picture."
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Word allowed in any language. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    engine: Annotated[
        str, typer.Option(help=f"OCR engine: {', '.join(engines.ENGINES)}.")
    ] = engines.DEFAULT,
    profile: Annotated[
        str, typer.Option(help=f"OCR profile (speed or accuracy): {', '.join(engines.PROFILES)}.")
    ] = engines.BALANCED,
    processes: Annotated[
        int | None,
        typer.Option("-j", min=1, help="Number of OCR processes. Default: one per core."),
    ] = None,
) -> None:
    """Check that pictures show the expected text, in the right language.

    The expected strings of picture.png are read from picture.txt beside it,
    one per line, or from --references: JSON such as
    {"picture.png": ["a string"]}, or CSV with the columns image and text.
    Without expected strings, only the language and visible text faults are
    checked. Without --language, the language is not checked.

    Exit code 0: all pictures passed (PASS). 1: some need manual review
    (MANUAL) or could not be read. 2: invalid arguments; nothing was done.
    """
    try:
        code = language or load_settings().check_language
        check_options = CheckOptions(languages.find_language(code) if code else None, allow or ())
        engines.find_engine(engine)
        options.parse_choices([profile], engines.PROFILES)
        pictures = _find_pictures(files, references)
    except (options.UsageError, languages.UnsupportedLanguage, errors.EngineNotInstalled) as exc:
        raise typer.BadParameter(str(exc)) from exc
    source = reader.Reader(engine=engine, profile=profile, processes=processes)
    sys.exit(_run(source, pictures, check_options, as_json=as_json))


def _find_pictures(files: Sequence[str], references: Path | None) -> list[Picture]:
    if options.STANDARD_INPUT in files:
        raise options.UsageError("check does not read standard input; pictures need file names")
    unused = Path(options.STANDARD_INPUT)
    items = options.find_inputs(
        files, standard_input=options.InputFile(unused, str(unused), unused)
    )
    strings = find_references(items, references)
    return [Picture(item, text) for item, text in zip(items, strings, strict=True)]


def _run(
    source: reader.Reader,
    pictures: Sequence[Picture],
    check_options: CheckOptions,
    *,
    as_json: bool,
) -> int:
    console = Console(stderr=True, highlight=False)
    results: list[PictureResult] = []

    async def run() -> None:
        results.extend(await check_all(source, pictures, check_options, lambda: bar.advance(task)))

    bar = progress.make_progress_bar(console)
    bar.disable = not console.is_terminal
    task = bar.add_task("checking", total=len(pictures), unit="pictures")
    try:
        with bar:
            asyncio.run(program.run_until_terminated(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.print_line(console, "interrupted; no results were saved")
        return program.INTERRUPTED
    _print(results, console, as_json=as_json)
    passed = all(result.verdict == Verdict.PASS for result in results)
    return 0 if passed else program.SOME_FAILED


def _print(results: Sequence[PictureResult], console: Console, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(format_json(results) + "\n")
    else:
        Console(highlight=False).print(make_table(results))
    progress.print_line(console, summarize(results))
