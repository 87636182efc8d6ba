"""`pagewarden upload`: upload files to a server, wait for their text, print or save it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer
from rich import progress
from rich.console import Console

from pagewarden import client, concurrency, errors, exports, storage
from pagewarden.cli import options, program
from pagewarden.cli.progress import BYTES, AmountColumn, RateColumn, format_count, print_line
from pagewarden.exports import base
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.settings import Settings


_PAGES = "pages"


class UploadProgress:
    """A bar per file on a terminal, otherwise lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            AmountColumn(),
            RateColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[state]}", markup=False),
            console=console,
            transient=True,
        )

    @contextlib.contextmanager
    def show(self) -> Iterator[None]:
        """Show progress bars if the output is a terminal."""
        with self._progress if self._console.is_terminal else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def track_file(self, name: str) -> Iterator[FileProgress]:
        """Show a progress bar for a file until it is finished."""
        bar = FileProgress(self._progress, name)
        try:
            yield bar
        finally:
            bar.remove()

    def print_file_line(self, line: str) -> None:
        """Print a line about a file, unless progress bars are shown."""
        if not self._console.is_terminal:
            self.print_line(line)

    def print_line(self, line: str) -> None:
        """Print a line without markup."""
        print_line(self._console, line)


class FileProgress:
    """The bar of a file: bytes while it is sent, then pages while it is read."""

    def __init__(self, bars: progress.Progress, name: str) -> None:
        self._progress = bars
        self._name = name
        self._task: progress.TaskID | None = None
        self._counts: tuple[str, int | None] = ("", None)

    def begin_sending(self, size: int) -> None:
        """Show the upload progress in bytes."""
        self._restart_task(BYTES, size, "uploading")

    def update_bytes_sent(self, position: int) -> None:
        """Show the number of bytes sent."""
        if self._task is not None:
            self._progress.update(self._task, completed=position)

    def update_pages_read(self, status: client.Progress) -> None:
        """Show the number of pages that the server has read."""
        if self._task is None or self._counts != (_PAGES, status.page_count):
            self._restart_task(_PAGES, status.page_count, "")
        assert self._task is not None  # noqa: S101  # for the type checker
        self._progress.update(self._task, completed=status.pages_done, state=_format_state(status))

    def remove(self) -> None:
        """Remove the progress bar."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None

    def _restart_task(self, unit: str, total: int | None, state: str) -> None:
        """Replace the task: rich cannot reset the total or the speed."""
        self.remove()
        self._task = self._progress.add_task(self._name, total=total, unit=unit, state=state)
        self._counts = (unit, total)


def _format_state(status: client.Progress) -> str:
    parts = ["reading" if status.ahead is None else f"waiting, {status.ahead:,} ahead"]
    if status.seconds_left is not None:
        parts.append(f"about {status.seconds_left:.0f} s left")
    return ", ".join(parts)


MAX_CONCURRENT = 4


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """What to do with all files; without a folder, results are printed from files in `scratch`.

    Without formats, the command does not wait for the text.
    """

    options: client.UploadOptions
    formats: Sequence[str]
    folder: Path | None
    scratch: Path


@dataclass(slots=True)
class Outcome:
    """Uploaded documents, result files on disk, and error messages."""

    uploads: dict[options.InputFile, client.UploadedDocument] = field(default_factory=dict)
    results: dict[options.InputFile, list[Path]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def list_unfinished(self) -> list[client.UploadedDocument]:
        """List uploaded documents whose results are still outstanding."""
        return [found for item, found in self.uploads.items() if item not in self.results]


class UploadRun:
    """Uploads the files of one command concurrently; a failure does not stop the others."""

    def __init__(
        self,
        server: client.Client,
        request: UploadRequest,
        upload_progress: UploadProgress,
        outcome: Outcome,
    ) -> None:
        self._client = server
        self._request = request
        self._progress = upload_progress
        self._outcome = outcome
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def run(self, items: Sequence[options.InputFile]) -> None:
        """Upload files, a few at a time; wait for the text of all uploaded ones together."""
        await concurrency.run_all(map(self._process, items))

    async def _process(self, item: options.InputFile) -> None:
        """Upload a file and fetch its text; record an error instead of raising it."""
        with self._progress.track_file(item.name) as bar:
            try:
                async with self._slots:
                    accepted = await self._upload(item, bar)
                if self._request.formats:
                    await self._fetch(item, accepted, bar)
            except (errors.ServerError, errors.LocalFileError) as exc:
                self._add_failure(item, str(exc))
            except OSError as exc:
                why = f"{exc.strerror}: {exc.filename}" if exc.filename else str(exc)
                self._add_failure(item, f"could not save the text ({why}); check the output folder")

    async def _upload(self, item: options.InputFile, bar: FileProgress) -> client.UploadedDocument:
        bar.begin_sending((await asyncio.to_thread(item.path.stat)).st_size)
        accepted = await self._client.upload(
            item.path,
            name=PurePath(item.name).name,
            options=self._request.options,
            on_sent=bar.update_bytes_sent,
        )
        self._outcome.uploads[item] = accepted
        state = "already on the server" if accepted.existing else "uploaded"
        self._progress.print_file_line(f"{item.name}: {state} as {accepted.document_id}")
        return accepted

    async def _fetch(
        self, item: options.InputFile, uploaded: client.UploadedDocument, bar: FileProgress
    ) -> None:
        """Wait for the text and save it."""
        status = await client.wait_until_finished(
            self._client, uploaded.document_id, on_progress=bar.update_pages_read
        )
        self._outcome.results[item] = []
        if status.state is client.DocumentState.NOT_READ:
            self._add_failure(item, f"{status.problem}; see {uploaded.status_url}")
            return
        folder = self._request.folder or self._request.scratch
        targets = item.list_targets(folder, self._request.formats)
        for name, target in targets.items():
            await self._save(item, uploaded.document_id, name, target)
        self._outcome.results[item] = list(targets.values())
        if status.unread:
            self._add_failure(item, f"{format_count(status.unread, 'page')} could not be read")
        saved = ", ".join(map(str, targets.values())) if self._request.folder else ""
        read = f"{item.name}: {format_count(status.pages_done, 'page')} read"
        self._progress.print_file_line(f"{read}, {saved}" if saved else read)

    async def _save(
        self, item: options.InputFile, document_id: str, name: str, target: Path
    ) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with base.replace_atomically(target, source=item.path) as out:
            await self._client.save_text(document_id, name, out)

    def _add_failure(self, item: options.InputFile, reason: str) -> None:
        self._outcome.failures.append(f"{item.name}: {reason}")


_STANDARD_INPUT_NAME = "standard-input"


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
        bool, typer.Option("--wait", help="Wait until the files are read, and print the text.")
    ] = False,
    formats: Annotated[
        str,
        typer.Option(
            "--format", help=f"Output formats, comma-separated: {', '.join(exports.FORMATS)}."
        ),
    ] = "txt",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Output folder; requires --wait."),
    ] = None,
    existing: Annotated[
        options.OverwritePolicy, typer.Option(help="What to do if a result already exists.")
    ] = options.OverwritePolicy.REFUSE,
    name: Annotated[
        str | None, typer.Option(help="Document name for standard input, such as letter.pdf.")
    ] = None,
    url: options.Url = None,
) -> None:
    """Upload images and PDFs to a Pagewarden server.

    The command prints a line per file: ID, "new" or "already there", name
    and status URL, separated by tabs. With --wait, it prints the text
    instead, or writes it to the folder given with -o.

    After `pagewarden login`, files are uploaded on your behalf. On the
    server itself, without a login, the service account is used.

    Exit code 0: all files were uploaded and, with --wait, read. 1: some
    failed; the summary says which, why and what to do. 2: invalid arguments;
    nothing was done. 130: interrupted; the server still processes the
    uploaded files.
    """
    settings = load_settings()
    with tempfile.TemporaryDirectory(prefix="pagewarden-") as scratch:
        try:
            request = UploadRequest(
                options=options.make_upload_options(case, lang, engine, profile),
                formats=options.parse_choices(formats.split(","), exports.FORMATS) if wait else (),
                folder=output,
                scratch=Path(scratch),
            )
            items = _find_inputs(paths, request, name, existing)
        except options.UsageError as exc:
            raise typer.BadParameter(str(exc)) from exc
        if options.STANDARD_INPUT in paths:
            path = Path(scratch, _STANDARD_INPUT_NAME)
            options.save_standard_input(path, limit=settings.upload_max_bytes)
        sys.exit(_run(settings, url, request, items))


def _find_inputs(
    paths: Sequence[str],
    request: UploadRequest,
    name: str | None,
    existing: options.OverwritePolicy,
) -> Sequence[options.InputFile]:
    """Find the files; raise `UsageError` if the request cannot be completed."""
    if (name is None) is (options.STANDARD_INPUT in paths):
        raise options.UsageError("--name is required for standard input (-), and only for it")
    for path in paths:
        if path != options.STANDARD_INPUT and Path(path).is_dir():
            raise options.UsageError(
                f"{path} is a folder; upload it with `pagewarden import {path}`"
            )
    input_name = name or _STANDARD_INPUT_NAME
    standard_input = options.InputFile(
        request.scratch / _STANDARD_INPUT_NAME, input_name, Path(Path(input_name).stem)
    )
    _require_distinct_names(paths, input_name)
    found: Sequence[options.InputFile] = options.find_inputs(paths, standard_input=standard_input)
    if request.folder is not None:
        if not request.formats:
            raise options.UsageError("-o requires --wait")
        found = options.apply_overwrite_policy(found, request.formats, request.folder, existing)
    elif request.formats:
        options.require_printable(found, request.formats)
    return found


def _require_distinct_names(paths: Sequence[str], input_name: str) -> None:
    """Raise `UsageError` if files would become versions of one another."""
    files = {Path(path).resolve(): Path(path) for path in paths if path != options.STANDARD_INPUT}
    names = [path.name for path in files.values()]
    if options.STANDARD_INPUT in paths:
        names.append(input_name)
    for name, uses in Counter(map(storage.make_safe_name, names)).items():
        if uses > 1:
            raise options.UsageError(
                f"{uses} of the files are named {name}, so one would replace the other; upload "
                "their folder with `pagewarden import`, or upload them to different cases"
            )


def _run(
    settings: Settings, url: str | None, request: UploadRequest, items: Sequence[options.InputFile]
) -> int:
    upload_progress = UploadProgress(Console(stderr=True, highlight=False))
    outcome = Outcome()

    async def upload() -> None:
        async with client.open_client(settings, url) as server:
            await UploadRun(server, request, upload_progress, outcome).run(items)

    try:
        with upload_progress.show():
            asyncio.run(program.run_until_terminated(upload()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        _print_interruption(upload_progress, outcome)
        return program.INTERRUPTED
    finally:
        _print_results(request, items, outcome)
    _print_summary(upload_progress, items, outcome)
    return program.SOME_FAILED if outcome.failures else 0


def _print_results(
    request: UploadRequest, items: Sequence[options.InputFile], outcome: Outcome
) -> None:
    """Print to standard output, after the bars are gone."""
    out = sys.stdout.buffer
    for item in items:
        accepted = outcome.uploads.get(item)
        if accepted is not None and not request.formats:
            state = "already there" if accepted.existing else "new"
            fields = (accepted.document_id, state, item.name, accepted.status_url)
            out.write("\t".join(fields).encode(errors="surrogateescape") + b"\n")
        for result in outcome.results.get(item, []) if request.folder is None else []:
            if len(items) > 1:
                out.write(f"==> {item.name} <==\n".encode(errors="surrogateescape"))
            with result.open("rb") as file:
                shutil.copyfileobj(file, out)
    out.flush()


def _print_interruption(upload_progress: UploadProgress, outcome: Outcome) -> None:
    unfinished = outcome.list_unfinished()
    upload_progress.print_line("interrupted; run the command again to upload the remaining files")
    if unfinished:
        upload_progress.print_line("Uploaded, still being read by the server:")
    for accepted in unfinished:
        upload_progress.print_line(f"  {accepted.name}: {accepted.status_url}")


def _print_summary(
    upload_progress: UploadProgress, items: Sequence[options.InputFile], outcome: Outcome
) -> None:
    if not items:
        upload_progress.print_line("nothing to do: all results already exist")
        return
    existing = sum(accepted.existing for accepted in outcome.uploads.values())
    summary = f"{format_count(len(outcome.uploads) - existing, 'file')} uploaded"
    upload_progress.print_line(
        f"{summary}, {existing:,} already on the server" if existing else summary
    )
    if outcome.failures:
        upload_progress.print_line("Failed:")
    for failure in outcome.failures:
        upload_progress.print_line(f"  {failure}")
