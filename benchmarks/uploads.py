"""python -m benchmarks uploads: memory and time of a large upload in two steps."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import system as systems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MB = 1_000_000
SMALL_MEGABYTES = 10
MAX_DIRECT_UPLOAD = 4_500_000
"""As on Lambda, so that files of both sizes are uploaded in two steps."""

_BLOCK = bytes(range(256)) * 4096

out = Console(highlight=False)


class WrongResult(Exception):
    """The system did not do what this benchmark measures."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Time and peak memory of one upload; memory in bytes."""

    megabytes: int
    seconds: float
    server: int
    client: int


def command(
    *,
    megabytes: Annotated[
        int, typer.Option(min=SMALL_MEGABYTES, help="Size of the large PDF in MB.")
    ] = 500,
) -> None:
    """Upload a small and a large PDF with `pagewarden upload`, then one with a wrong digest."""
    small, large = run(megabytes)
    table = Table("PDF, MB", "seconds", "server, peak MB", "client, peak MB")
    for figures in (small, large):
        memory = (figures.server, figures.client)
        peaks = (f"{value / MB:.0f}" for value in memory)
        table.add_row(f"{figures.megabytes}", f"{figures.seconds:.1f}", *peaks)
    out.print(table)
    out.print("A PDF of the same size with a wrong digest was refused, and nothing of it was kept.")


def run(megabytes: int) -> tuple[Figures, Figures]:
    """Measure a small and a large upload in one system."""
    return asyncio.run(_measure_system(megabytes))


async def _measure_system(megabytes: int) -> tuple[Figures, Figures]:
    with systems.prepare(max_direct_upload=str(MAX_DIRECT_UPLOAD)) as installation:
        async with systems.open_installation(installation) as system:
            async with system.client() as client:
                await client.get("/documents")  # opens what the first request opens
            found = [
                await _measure(installation, system, size) for size in (SMALL_MEGABYTES, megabytes)
            ]
            await _require_refusal(system, megabytes * MB)
    return found[0], found[1]


async def _measure(
    installation: systems.Installation, system: systems.System, megabytes: int
) -> Figures:
    pdf = system.home / f"{megabytes}.pdf"
    await asyncio.to_thread(write_pdf, pdf, megabytes * MB)
    server = system.part("functions").pid
    _reset_peak(server)
    began = time.perf_counter()
    client = await asyncio.to_thread(_run_client, installation, pdf)
    seconds = time.perf_counter() - began
    pdf.unlink()
    return Figures(megabytes, seconds, _read_peak(server), client)


def write_pdf(path: Path, size: int) -> None:
    """Write a valid PDF of one page that has at least this size, most of it in a stream."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/Resources<<>>/MediaBox[0 0 200 200]/PieceInfo 4 0 R>>",
    )
    offsets = []
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        for number, content in enumerate(objects, 1):
            offsets.append(file.tell())
            file.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
        offsets.append(file.tell())
        blocks = -(-size // len(_BLOCK))
        file.write(b"4 0 obj\n<</Length %d>>\nstream\n" % (blocks * len(_BLOCK)))
        for _ in range(blocks):
            file.write(_BLOCK)
        file.write(b"\nendstream\nendobj\n")
        start = file.tell()
        entries = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        file.write(b"xref\n0 5\n0000000000 65535 f \n" + entries)
        file.write(b"trailer\n<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % start)


def _run_client(installation: systems.Installation, pdf: Path) -> int:
    """Upload with the command line, and return its peak memory."""
    command = [sys.executable, "-m", "pagewarden", "upload", str(pdf), "--url", installation.url]
    process = subprocess.Popen(
        command, env=dict(installation.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    output, errors = process.communicate()
    if process.returncode or b"\tnew\t" not in output:
        raise WrongResult((output + errors).decode())
    return usage.ru_maxrss * 1024


def _reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")


def _read_peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    match = re.search(r"VmHWM:\s*(\d+) kB", status)
    if match is None:
        raise WrongResult(f"the system does not report the peak memory of process {pid}")
    return int(match[1]) * 1024


async def _require_refusal(system: systems.System, size: int) -> None:
    """Send a file that is not the announced one, and confirm it; both must be refused."""
    sha256 = hashlib.sha256(b"another file").hexdigest()
    wanted = {"name": "wrong.pdf", "size": size, "sha256": sha256}
    async with system.client() as client:
        signed: dict[str, Any] = (await client.post("upload-to-dropbox/sign", json=wanted)).json()
        sent = await client.request(
            signed["method"],
            signed["url"],
            content=_generate(size),
            headers={**signed["headers"], "Content-Length": str(size)},
        )
        confirmed = await client.post(signed["confirm_url"])
    found = [(response.status_code, response.json()["error"]) for response in (sent, confirmed)]
    if found != [(422, "UPLOAD_MISMATCH"), (409, "NOT_UPLOADED")]:
        raise WrongResult(f"a wrong digest was not refused: {found}")


async def _generate(size: int) -> AsyncIterator[bytes]:
    left = size
    while left:
        block = _BLOCK[:left]
        yield block
        left -= len(block)
