"""Read documents: a path or bytes in, pages out one by one.

    async with reader.Reader() as r:
        async for page in r.read("scan.pdf", languages=["deu"]):
            print(page.number, page.text)

Child processes parse the files and recognise the text; see `pagewarden.ocr.sandbox`.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pagewarden.ocr import child_pool, engines, page_pool
from pagewarden.ocr.engines import base
from pagewarden.ocr.limits import Limits
from pagewarden.ocr.sandbox import host

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Iterator, Sequence

    from pagewarden.ocr import pages
    from pagewarden.ocr.sandbox import tasks

DEFAULT_LIMITS = Limits()


def _ignore(_count: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The bytes that a task has returned, and the folder of its child with its output files."""

    folder: Path
    blob: bytes


class Reader:
    """Reads any number of documents concurrently with one engine, in several processes.

    The engine is a name of `pagewarden.ocr.engines`, or an engine object that needs the network:
    the reader calls it in its own process, at the rate that permit allows. Documents share the
    processes fairly. preload names modules of tasks for `run_task`, which children would otherwise
    import again each time.
    """

    def __init__(  # noqa: PLR0913  # all are optional
        self,
        *,
        engine: str | base.Engine = engines.DEFAULT,
        profile: str = engines.BALANCED,
        limits: Limits = DEFAULT_LIMITS,
        processes: int | None = None,
        permit: base.Permit | None = None,
        preload: Sequence[str] = (),
    ) -> None:
        name = engine if isinstance(engine, str) else ""
        self._owned = child_pool.load_remote_engine(name, profile) if name else None
        remote = self._owned if isinstance(engine, str) else engine
        if permit is not None and isinstance(remote, base.SupportsPermit):
            remote.set_permit(permit)
        self._remote = remote
        self._limits = limits
        self.processes = child_pool.get_process_count(processes, remote)
        self._slots = child_pool.ProcessSlots(self.processes)
        self._sandbox = host.Sandbox("" if remote else name, profile, preload=preload)

    async def __aenter__(self) -> Self:
        await self._sandbox.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sandbox.__aexit__()
        child_pool.close_engine(self._owned)

    @property
    def version(self) -> str:
        """The version of the engine; no document mixes pages of two versions."""
        return self._remote.version if self._remote else self._sandbox.version

    @property
    def folder(self) -> Path:
        """A folder for temporary files; it is removed even if this process is killed."""
        return self._sandbox.folder

    @property
    def peak_memory(self) -> int:
        """The highest memory use of a child in bytes, with the memory that all of them share."""
        return self._sandbox.peak_memory

    def read(  # noqa: PLR0913  # all but the first are optional
        self,
        source: Path | str | bytes,
        *,
        name: str | None = None,
        languages: Sequence[str] = (),
        password: str | None = None,
        skip: Container[int] = frozenset(),
        on_open: Callable[[int], None] = _ignore,
        limits: Limits | None = None,
        strict: bool = False,
    ) -> AsyncGenerator[pages.ReadPage]:
        """Return a generator of the pages in order, without those to skip.

        name identifies the document in messages. on_open is called with the number of pages. A page
        that cannot be read has the source FAILED and its error; if strict, the error is raised, as
        for a document that cannot be read. limits replace those of the reader.
        """
        job = page_pool.Job(
            file=self._as_file(source),
            name=name or ("document" if isinstance(source, bytes) else Path(source).name),
            bounds=limits or self._limits,
            served_by=child_pool.Host(self._remote, base.PageHints(tuple(languages))),
            password=password,
            skip=skip,
            on_open=on_open,
            strict=strict,
        )
        return page_pool.PagePool(job, self._sandbox, self._slots, self.processes).read()

    @contextlib.asynccontextmanager
    async def run_task(
        self, task: tasks.SandboxTask, name: str, *, max_blob: int = 0
    ) -> AsyncGenerator[TaskResult]:
        """Run a task once, in a new child; its folder is removed at the end of the context.

        name identifies the document in messages; max_blob limits the bytes that the task returns.
        """
        bounds = self._limits
        seconds = bounds.document_seconds if task.whole_document else bounds.page_seconds
        async with (
            self._slots.hold(child_pool.SlotPriority.FIRST),
            child_pool.open_session(self._sandbox, bounds, child_pool.Host(), task=task) as session,
        ):
            try:
                blob = await session.ask(
                    {}, seconds=lambda: seconds, max_blob=max_blob, parse=lambda _, blob: blob
                )
            except host.ChildDied as death:
                raise host.explain_death(death, name, bounds) from death
            yield TaskResult(session.child.folder, blob)

    @contextlib.contextmanager
    def _as_file(self, source: Path | str | bytes) -> Iterator[Path]:
        if not isinstance(source, bytes):
            yield Path(source)
            return
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(source)
            file.flush()
            yield Path(file.name)


async def read(
    source: Path | str | bytes,
    *,
    engine: str | base.Engine = engines.DEFAULT,
    profile: str = engines.BALANCED,
    languages: Sequence[str] = (),
) -> AsyncGenerator[pages.ReadPage]:
    """Read one document; for several, keep a `Reader`, which starts its processes only once."""
    async with (
        Reader(engine=engine, profile=profile) as reader,
        contextlib.aclosing(reader.read(source, languages=languages)) as found,
    ):
        async for page in found:
            yield page
