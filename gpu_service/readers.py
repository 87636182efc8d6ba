"""One reader for each engine and profile, started on first use; the engine `batched`."""

from __future__ import annotations

import asyncio
import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden import errors
from pagewarden.gpu_service.batcher import LineBatcher
from pagewarden.gpu_service.config import BATCHED, ServiceConfig, choose_device
from pagewarden.ocr import engines
from pagewarden.ocr.engines import rapid
from pagewarden.ocr.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.ocr.engines import base
    from pagewarden.ocr.lines import crops, recognition

TEST_LINE = "Every page read, none lost"


class BatchedEngine(rapid.RapidEngine):
    """PP-OCR as in the engine `rapid`; lines are recognised with those of other pages."""

    name = BATCHED

    def __init__(self, on_batch: Callable[[int, int], None]) -> None:
        super().__init__(choose_device())
        self._batcher = LineBatcher(on_batch)

    @property
    def version(self) -> str:
        """Return the version of package and models; it names batching, because padding matters."""
        return f"{super().version}, in batches"

    @property
    def alive(self) -> bool:
        """Return whether the recognition thread is running."""
        return self._batcher.alive

    def read(
        self, lines: Sequence[crops.Crop], recogniser: recognition.Recogniser
    ) -> list[crops.LineReading]:
        """Read the lines together with lines of other pages."""
        return self._batcher.read(recogniser, lines)

    def close(self) -> None:
        """End the recognition thread."""
        self._batcher.close()


@dataclass(frozen=True, slots=True)
class SelectedReader:
    """A reader, and the engine and profile under which its pages are saved."""

    reader: Reader
    engine: str
    profile: str

    @property
    def version(self) -> str:
        """Return the version of the engine."""
        return self.reader.version


class ReaderFactory:
    """Opens readers; they are closed with `resources`."""

    def __init__(
        self,
        config: ServiceConfig,
        resources: contextlib.AsyncExitStack,
        on_batch: Callable[[int, int], None],
    ) -> None:
        self._config = config
        self._resources = resources
        self._on_batch = on_batch
        self._readers: dict[tuple[str, str], Reader] = {}
        self._batched: BatchedEngine | None = None
        self._opening = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Return whether the recognition thread, if started, is still running."""
        return self._batched is None or self._batched.alive

    async def select(self, engine: str | None, profile: str | None) -> SelectedReader:
        """Return the reader of an engine and profile; None means the configured one."""
        engine = engine or self._config.engine
        profile = profile or self._config.profile
        self._validate_engine(engine, profile)
        has_profiles = engine != BATCHED and engines.find_engine(engine).has_profiles
        key = engine, profile if has_profiles else engines.BALANCED
        async with self._opening:
            if key not in self._readers:
                self._readers[key] = await self._open(*key)
        return SelectedReader(self._readers[key], engine, profile)

    async def self_test(self) -> None:
        """Open the default reader and read a test line, which loads all models."""
        selected = await self.select(None, None)
        found = selected.reader.read(_draw_test_page(), name="the test line", languages=["eng"])
        pages = [page async for page in found]
        problem = "; ".join(page.error for page in pages if page.error)
        text = " ".join(page.text for page in pages)
        if problem or (self._config.check_test_line and text != TEST_LINE):
            raise errors.EngineUnavailable(
                problem or f"the test line {TEST_LINE!r} was read as {text!r}"
            )

    def _validate_engine(self, engine: str, profile: str) -> None:
        known = {**dict.fromkeys(engines.ENGINES), BATCHED: None, self._config.engine: None}
        if engine not in known:
            raise errors.EngineNotInstalled(
                f"unknown engine {engine!r}; choose one of {', '.join(known)}"
            )
        if profile not in engines.PROFILES:
            raise errors.EngineNotInstalled(
                f"unknown profile {profile!r}; choose one of {', '.join(engines.PROFILES)}"
            )

    async def _open(self, name: str, profile: str) -> Reader:
        engine: str | base.Engine = name
        if name == BATCHED:
            engine = self._batched = await asyncio.to_thread(BatchedEngine, self._on_batch)
            self._resources.callback(engine.close)
        reader = Reader(engine=engine, profile=profile, processes=self._config.processes)
        return await self._resources.enter_async_context(reader)


def _draw_test_page() -> bytes:
    page = Image.new("L", (900, 200), 255)
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(page).text((60, 70), TEST_LINE, fill=0, font=font)
    file = io.BytesIO()
    page.save(file, "PNG")
    return file.getvalue()
