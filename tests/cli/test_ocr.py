"""The command `pagewarden ocr` as a person types it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import testing

from pagewarden import cli, exports
from pagewarden.cli import options
from pagewarden.cli.ocr import parse_selection
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATIENCE = 60
TEXT = "{}x{}".format(*drawn.SIZE)
"""What the fake engine reads on a page."""


def ocr(*words: str | Path, stdin: bytes = b"", engine: str = "fake-remote") -> testing.Result:
    """Type the command, in this process."""
    runner = testing.CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"})
    return runner.invoke(cli.app, ["ocr", "--engine", engine, *map(str, words)], input=stdin)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A file of two good pages."""
    path = tmp_path / "scan.tif"
    path.write_bytes(drawn.document("white", "white"))
    return path


def names(folder: Path) -> set[str]:
    """Name all files below a folder, hidden ones included."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_text_of_files_is_printed_in_their_order(scan: Path, tmp_path: Path) -> None:
    """The first is done last; pages and files are separated by form feeds, and by nothing else."""
    long = tmp_path / "long.tif"
    long.write_bytes(drawn.document(*["white"] * 15, size=(80, 90)))

    result = ocr(long, scan, "-", stdin=scan.read_bytes())
    assert result.exit_code == 0
    assert result.stdout == "\f".join(["80x90\n"] * 15 + [f"{TEXT}\n"] * 4)
    assert "standard input: 2 pages read" in result.stderr


def test_every_format_lands_in_the_folder(scan: Path, tmp_path: Path) -> None:
    """A folder is read with all below it, its shape is kept, and equal names stay apart."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for name in ("deep/scan.tif", "scan.tif", ".hidden.tif", "notes.txt"):
        (folder / name).write_bytes(scan.read_bytes())
    (folder / "scan.png").write_bytes(drawn.document("white", kind="PNG"))

    result = ocr(folder, "-o", tmp_path / "out", "--format", ",".join(exports.FORMATS))
    assert result.exit_code == 0, result.output
    suffixes = [form.suffix for form in exports.FORMATS.values()]
    stems = ("deep/scan", "scan.tif", "scan.png")
    assert names(tmp_path / "out") == {stem + suffix for stem in stems for suffix in suffixes}
    read = json.loads((tmp_path / "out" / "deep" / "scan.json").read_text())
    assert len(read["pages"]) == 2


def test_what_could_not_be_read_is_listed(scan: Path, tmp_path: Path) -> None:
    """Exit code 1; the good pages are there, and file, page, reason and remedy are named."""
    for name, data in {
        "empty.pdf": b"",
        "letter.pdf": b"Dear Sir or Madam",
        "half.tif": drawn.document("white", "refused"),
    }.items():
        (tmp_path / name).write_bytes(data)

    out = tmp_path / "out"
    result = ocr(scan, *(tmp_path / n for n in ("empty.pdf", "letter.pdf", "half.tif")), "-o", out)
    assert result.exit_code == 1
    assert names(out) == {"scan.txt", "half.txt"}
    said = result.stderr.partition("Failed:")[2]
    assert "empty.pdf: the file is empty. Send it again." in said
    assert "letter.pdf: this is " in said
    assert "half.tif, page 2: the service will not read this page; use another engine" in said


def test_a_folder_that_cannot_be_written_to_is_named(scan: Path, tmp_path: Path) -> None:
    """Exit code 1 and the reason, instead of a traceback."""
    (tmp_path / "out").symlink_to("/proc")
    result = ocr(scan, "-o", tmp_path / "out", engine="null")
    assert result.exit_code == 1
    assert "scan.tif: the result could not be saved (" in result.stderr
    assert "Traceback" not in result.stderr


def test_chosen_pages_only(tmp_path: Path) -> None:
    """--pages leaves the others out; to choose none that is there is an error."""
    scan = tmp_path / "scan.tif"
    scan.write_bytes(drawn.numbered(4))

    assert ocr(scan, "--pages", "2,4-").stdout == "201x300\n\f203x300\n"
    result = ocr(scan, "--pages", "9")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "it contains none of the selected pages" in result.stderr


def test_results_are_not_written_over(scan: Path, tmp_path: Path) -> None:
    """What is there is refused, left alone or replaced, as the user says."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "scan.txt").write_text("old")

    result = ocr(scan, "-o", out)
    assert result.exit_code == 2
    assert "use --existing skip or --existing replace" in result.stderr
    assert ocr(scan, "-o", out, "--existing", "skip").exit_code == 0
    assert (out / "scan.txt").read_text() == "old"
    assert ocr(scan, "-o", out, "--existing", "replace").exit_code == 0
    assert (out / "scan.txt").read_text().startswith(TEXT)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.pdf"], "there is no file none.pdf; check the path"),
        (["."], "there are no readable files in ."),
        (["/dev/null"], "/dev/null is neither a file nor a folder"),
        (["scan.tif", "--engine", "rapyd"], "unknown engine 'rapyd'; choose one of rapid"),
        (["scan.tif", "--profile", "best"], "'best' is not valid; choose from fast"),
        (["scan.tif", "--format", "docx"], "'docx' is not valid; choose from txt"),
        (["scan.tif", "--format", "txt,json"], "use -o DIR"),
        (["scan.tif", "-", "--format", "json"], "use -o DIR"),
        (["scan.tif", "--pages", "3-1"], "'3-1' is not a valid page range"),
        (["scan.tif", "-o", "scan.tif"], "scan.tif is not a folder"),
        (["scan.pdf", "-o", ".", "--format", "pdf"], "scan.pdf is an input file"),
        (["a/scan.tif", "b/scan.tif", "-o", "out"], "would have the same name"),
    ],
)
def test_invalid_arguments_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """Exit code 2, a reason, and nothing done."""
    monkeypatch.chdir(tmp_path)
    if words != ["."]:
        for name in ("scan.tif", "scan.pdf", "a/scan.tif", "b/scan.tif"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(drawn.document("white"))
    before = names(tmp_path)

    result = ocr(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert names(tmp_path) == before


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=1, max_size=5))
def test_ranges_of_pages_mean_what_they_say(ranges: list[tuple[int, int]]) -> None:
    """A page is read if and only if a range includes it."""
    text = ",".join(f"{first}-{first + more}" if more else str(first) for first, more in ranges)
    excluded = parse_selection(text)
    for number in range(1, 80):
        chosen = any(first <= number <= first + more for first, more in ranges)
        assert (number in excluded) is not chosen


@pytest.mark.parametrize("text", ["", "x", "0", "-", "1,,2", "2-1", "1-2-3", "-0"])
def test_nonsense_ranges_are_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(options.UsageError):
        parse_selection(text)


def test_the_command_explains_itself() -> None:
    """--help says what it does, and what its exit codes mean."""
    result = testing.CliRunner().invoke(cli.app, ["ocr", "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert "Exit code 0: everything was read." in result.output


@contextlib.asynccontextmanager
async def started(*words: str | Path, stderr: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command in a process of its own, and see to it that it ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", "ocr", *words,
        stdout=asyncio.subprocess.PIPE, stderr=stderr, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_command_leaves_nothing_by_half(
    scan: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    """What is finished stays; what is not leaves neither files nor processes behind."""
    endless = tmp_path / "endless.tif"
    endless.write_bytes(drawn.document("white", "hang"))
    words = (scan, endless, "-o", tmp_path / "out", "--engine", "fake")
    async with started(*words, stderr=asyncio.subprocess.PIPE) as process:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            assert b"scan.tif: 2 pages read" in await process.stderr.readline()
            process.send_signal(signum)
            _, said = await process.communicate()

    assert process.returncode == 130
    assert b"partial results were discarded" in said
    assert b"Traceback" not in said
    assert names(tmp_path) == {"scan.tif", "endless.tif", "out/scan.txt"}


async def test_a_terminal_sees_a_bar(scan: Path, tmp_path: Path) -> None:
    """On a terminal there is a bar with pages and rate, and no line for each file."""
    ours, theirs = pty.openpty()
    async with started(scan, "-o", tmp_path / "out", "--engine", "null", stderr=theirs):
        os.close(theirs)
        async with asyncio.timeout(PATIENCE):
            said = await asyncio.to_thread(_all_of, ours)
    assert "file 1 of 1" in said
    assert "2/2" in said
    assert "2 pages read in " in said
    assert "scan.tif: " not in said


def _all_of(terminal: int) -> str:
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        parts = []
        while part := file.read(4096):
            parts.append(part)
    return b"".join(parts).decode()
