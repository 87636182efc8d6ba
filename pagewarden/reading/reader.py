"""Read documents: a path or bytes in, pages out one after another.

    async with reader.Reader() as r:
        async for page in r.read("scan.pdf", languages=["deu"]):
            print(page.number, page.text)

What parses and recognises runs in child processes; see pagewarden.reading.sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pagewarden.reading import engine as engine_protocol
from pagewarden.reading import engines, exporting, lanes, picturing, turns
from pagewarden.reading import limits as limit_defaults
from pagewarden.reading import spool as spools
from pagewarden.reading.sandbox import host

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Iterator, Sequence

    from pagewarden.reading import pages

LIMITS = limit_defaults.Limits()
# A remote engine makes us wait, not compute.
REMOTE_PROCESSES = 8


def _ignore(_count: int) -> None:
    pass


class Reader:
    """Reads any number of documents at a time with one engine, in so many processes.

    The engine is a name of pagewarden.reading.engines, or an engine that needs the network and is
    therefore called in our own process, once permit lets it. Documents share the processes fairly.
    """

    def __init__(
        self,
        *,
        engine: str | engine_protocol.Engine = engines.DEFAULT,
        profile: str = engines.BALANCED,
        limits: limit_defaults.Limits = LIMITS,
        processes: int | None = None,
        permit: engines.Permit | None = None,
    ) -> None:
        self._made: engines.Closing | None = None
        if isinstance(engine, str) and engines.find(engine).remote:
            engine = engines.make(engine, profile)
            self._made = engine if isinstance(engine, engines.Closing) else None
        self._remote = None if isinstance(engine, str) else engine
        if permit is not None and isinstance(self._remote, engines.Paced):
            self._remote.ask_first(permit)
        self._limits = limits
        self.processes = processes or (REMOTE_PROCESSES if self._remote else os.cpu_count() or 1)
        self._places = turns.Turns(self.processes)
        self._host = host.Host(engine if isinstance(engine, str) else "", profile)

    async def __aenter__(self) -> Self:
        await self._host.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.__aexit__()
        if self._made is not None:
            self._made.close()

    @property
    def version(self) -> str:
        """Name the version of the engine; pages of two versions never mix."""
        return self._remote.version if self._remote else self._host.version

    @property
    def peak_memory(self) -> int:
        """Say how many bytes the hungriest child had, with what all of them share."""
        return self._host.peak

    async def read(  # noqa: PLR0913  # all but the first are optional
        self,
        source: Path | str | bytes,
        *,
        name: str | None = None,
        languages: Sequence[str] = (),
        password: str | None = None,
        done: Container[int] = frozenset(),
        opened: Callable[[int], None] = _ignore,
        limits: limit_defaults.Limits | None = None,
        strict: bool = False,
    ) -> AsyncGenerator[pages.ReadPage]:
        """Read the pages in order, without those that are done already.

        name stands for the document in messages. opened is told how many pages it has. A page
        that cannot be read has the source FAILED and says why, unless strict: then, like a
        document that cannot be read, it raises the error. limits are the reader's own otherwise.
        """
        with self._as_file(source) as path:
            job = lanes.Job(
                path=path.absolute(),
                name=name or ("document" if isinstance(source, bytes) else path.name),
                bounds=limits or self._limits,
                hints=engine_protocol.Hints(tuple(languages)),
                password=password,
                done=done,
                opened=opened,
                remote=self._remote,
                strict=strict,
            )
            at_work = lanes.Lanes(job, self._host, self._places, self.processes)
            async with contextlib.aclosing(at_work.read()) as found:
                async for page in found:
                    yield page

    @contextlib.contextmanager
    def spool(self) -> Iterator[spools.Spool]:
        """Have a place on disk for pages that are to be exported."""
        with tempfile.NamedTemporaryFile(dir=self._host.folder) as file:
            yield spools.Spool(Path(file.name))

    async def export(self, export: exporting.Export, target: Path) -> None:
        """Write what was read to target, whole or not at all."""
        if not export.needs_original:
            await asyncio.to_thread(export.write, target)
            return
        async with self._places.taken(turns.Rank.FIRST), self._host.child() as child:
            await exporting.write_in(child, export, target, self._limits)

    async def draw(self, picture: picturing.Picture) -> bytes:
        """Draw a page of a document, as picturing.MEDIA_TYPE."""
        async with self._places.taken(turns.Rank.FIRST), self._host.child() as child:
            return await picturing.draw_in(child, picture, self._limits)

    @contextlib.contextmanager
    def _as_file(self, source: Path | str | bytes) -> Iterator[Path]:
        if not isinstance(source, bytes):
            yield Path(source)
            return
        with tempfile.NamedTemporaryFile(dir=self._host.folder) as file:
            file.write(source)
            file.flush()
            yield Path(file.name)


async def read(
    source: Path | str | bytes,
    *,
    engine: str | engine_protocol.Engine = engines.DEFAULT,
    profile: str = engines.BALANCED,
    languages: Sequence[str] = (),
) -> AsyncGenerator[pages.ReadPage]:
    """Read one document; for more than one keep a Reader, which starts only once."""
    async with (
        Reader(engine=engine, profile=profile) as reader,
        contextlib.aclosing(reader.read(source, languages=languages)) as found,
    ):
        async for page in found:
            yield page
