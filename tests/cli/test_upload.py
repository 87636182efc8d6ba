"""pagewarden upload, as a person types it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from typer import testing

from pagewarden import cli, exports
from tests.client import desk as desks
from tests.client.desk import PATIENCE, TEXT
from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.desk import Desk
    from tests.documents import readers


async def test_files_are_uploaded_and_named_line_by_line(desk: Desk) -> None:
    """Id, whether it is new, name and address, with tabs between them for programs."""
    await desk.sign_in()
    first, second = desk.file("a.png"), desk.file("b.pdf", house.PDF)
    await desk.typed("upload", first)
    typed = await desk.typed("upload", first, second)

    assert typed.code == 0, typed.err
    lines = [line.split("\t") for line in typed.out.splitlines()]
    documents = {row["name"]: row["id"] for row in await desk.house.documents()}
    assert [line[:3] for line in lines] == [
        [documents["a.png"], "already there", str(first)],
        [documents["b.pdf"], "new", str(second)],
    ]
    # It leads to where people reach the server, which this one knows nothing of.
    asked = urlsplit(lines[1][3]).path
    status = await desk.house.session.get(asked, headers={"apikey": house.KEYS.secret_key})
    assert status.json()["document_id"] == documents["b.pdf"]
    assert "1 file uploaded, 1 already on the server" in typed.err


async def test_wait_prints_the_text_in_the_order_of_the_files(desk: Desk) -> None:
    """A heading for each when there are several; ids and what happens go to standard error."""
    await desk.sign_in()
    async with desk.workers():
        several = await desk.typed("upload", desk.file("b.png"), desk.file("a.png"), "--wait")
        one = await desk.typed("upload", "-", "--name", "c.png", "--wait", given=house.PNG)

    assert several.code == 0, several.err
    b, a = (desk.folder / "files" / name for name in ("b.png", "a.png"))
    assert several.out == f"==> {b} <==\n{TEXT}==> {a} <==\n{TEXT}"
    assert f"{a}: 2 pages read" in several.err
    assert (one.code, one.out) == (0, TEXT)
    assert {row["name"] for row in await desk.house.documents()} == {"a.png", "b.png", "c.png"}


async def test_wait_writes_every_format_to_a_folder(desk: Desk) -> None:
    """Under the names of the files; the text is not printed then."""
    await desk.sign_in()
    out = desk.folder / "out"
    path = desk.file("a.pdf", house.READABLE_PDF)
    async with desk.workers():
        typed = await desk.typed(
            "upload", path, "--wait", "-o", out, "--format", ",".join(exports.FORMATS)
        )
    assert (typed.code, typed.out) == (0, ""), typed.err
    assert {path.name for path in out.iterdir()} == {
        f"a{form.suffix}" for form in exports.FORMATS.values()
    }
    assert (out / "a.txt").read_text() == TEXT


async def test_what_goes_wrong_is_listed_and_stops_nothing_else(desk: Desk) -> None:
    """Exit code 1; what could be read is printed, and each failure says what to do."""
    await desk.sign_in()
    bad = [desk.file("empty.png", b""), desk.file("letter.txt", b"Dear Sir or Madam")]
    async with desk.workers():
        typed = await desk.typed("upload", *bad, desk.file(), "--wait")
    assert typed.code == 1
    assert TEXT in typed.out
    said = typed.err.partition("Failed:")[2]
    assert "empty.png: empty.png is empty" in said
    assert "letter.txt: its file type is unknown; an administrator must route it" in said
    assert "/functions/v1/documents/" in said


@pytest.mark.parametrize("recorder", [desks.recorder(stuck=True)])
async def test_ctrl_c_says_what_goes_on_being_read(desk: Desk, recorder: readers.Recorder) -> None:
    """What is uploaded stays uploaded; the command ends at once, without a traceback."""
    await desk.sign_in()
    async with desk.workers(), desk.started("upload", desk.file(), "--wait") as process:
        document_id = await recorder.next()
        assert process.stderr is not None
        assert b"scan.png: uploaded as" in await process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out) == (130, b"")
    assert b"run the command again" in err
    assert b"  scan.png: http" in err
    assert f"/functions/v1/documents/{document_id}" in err.decode()
    assert b"Traceback" not in err


async def test_a_terminal_sees_a_bar_for_each_file(desk: Desk) -> None:
    """First the bytes, then the pages."""
    await desk.sign_in()
    path = desk.file(content=house.PNG + b"\0" * 3_000_000)
    ours, theirs = pty.openpty()
    async with desk.started("upload", path, "--wait", stderr=theirs) as process:
        os.close(theirs)
        shown: list[bytes] = []
        listening = asyncio.create_task(asyncio.to_thread(_listen, ours, shown))
        await desk.has_documents(1, process)
        await polling.wait_until(lambda: b"waiting, 0 ahead" in b"".join(shown))
        await desk.house.read()
        await asyncio.wait_for(process.wait(), PATIENCE)
        await listening
    said = b"".join(shown)
    assert b"uploading" in said
    assert b"MB" in said
    assert b"1 file uploaded" in said
    assert b": uploaded as" not in said


def _listen(terminal: int, shown: list[bytes]) -> None:
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while part := file.read(4096):
            shown.append(part)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.pdf"], "there is no file none.pdf; check the path"),
        (["folder"], "folder is a folder; upload it with `pagewarden import folder`"),
        (["-"], "--name is required for standard input (-)"),
        (["scan.png", "--name", "x"], "--name is required for standard input (-)"),
        (["scan.png", "folder/scan.png"], "2 of the files are named scan.png"),
        (["scan.png", "-", "--name", "scan.png"], "2 of the files are named scan.png"),
        (["scan.png", "--case", "7"], "'7' is not a case ID"),
        (["scan.png", "--engine", "rapyd"], "'rapyd' is not valid; choose from rapid"),
        (["scan.png", "--profile", "best"], "'best' is not valid; choose from fast"),
        (["scan.png", "--wait", "--format", "docx"], "'docx' is not valid; choose from txt"),
        (["scan.png", "--wait", "--format", "txt,json"], "use -o DIR"),
        (["scan.png", "-o", "out"], "-o requires --wait"),
    ],
)
def test_invalid_arguments_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """Exit code 2 and a reason, before any server is asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("scan.png", "folder/scan.png"):
        (tmp_path / name).write_bytes(house.PNG)
    runner = testing.CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"})
    result = runner.invoke(cli.app, ["upload", *words])
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_what_people_type_is_no_markup(tmp_path: Path) -> None:
    """An error quotes it as it is, in one line, whatever brackets it has."""
    (tmp_path / "scan.png").write_bytes(house.PNG)
    words = [sys.executable, "-m", "pagewarden", "upload", "scan.png", "--url", "[/]"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("pagewarden: '[/]' is not the URL of a server")


@pytest.mark.parametrize("words", [["upload"], ["import"], ["login"], ["logout"]])
def test_the_commands_explain_themselves(words: list[str]) -> None:
    """--help says what they do; of upload and import also what the exit codes mean."""
    result = testing.CliRunner().invoke(cli.app, [*words, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert "log" in words[0] or "Exit code 0: " in result.output
