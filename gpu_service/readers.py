"""The readers of the service: one for each engine and profile, started when it is first wanted."""

from __future__ import annotations

import asyncio
import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from gpu_service import batcher, config
from pagewarden import errors
from pagewarden.reading import engines, rapid
from pagewarden.reading import reader as readers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.reading import engine as engine_protocol
    from pagewarden.reading.lines import crops, readings, recognition

TEST_LINE = "Every page read, none lost"


class Batched(rapid.Rapid):
    """Finds the lines of each page by itself, and has them read with those of others."""

    name = config.BATCHED

    def __init__(self, noted: Callable[[int, int], None]) -> None:
        super().__init__(config.best())
        self._together = batcher.Together(noted)

    @property
    def version(self) -> str:
        """Name the version of package and models; what is added to lines counts too."""
        return f"{super().version}, in batches"

    @property
    def alive(self) -> bool:
        """Tell whether anybody reads."""
        return self._together.alive

    def read(
        self, lines: Sequence[crops.Crop], chosen: recognition.Recogniser
    ) -> list[readings.Reading]:
        """Read them with the lines of other pages."""
        return self._together.read(chosen, lines)

    def close(self) -> None:
        """End the thread."""
        self._together.close()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A reader, and what pages it reads are filed under."""

    reader: readers.Reader
    engine: str
    profile: str

    @property
    def version(self) -> str:
        """Name the version of the engine."""
        return self.reader.version


class Readers:
    """Makes readers; resources are closed by whoever made us."""

    def __init__(
        self,
        plan: config.Plan,
        resources: contextlib.AsyncExitStack,
        noted: Callable[[int, int], None],
    ) -> None:
        self._plan = plan
        self._resources = resources
        self._noted = noted
        self._readers: dict[tuple[str, str], readers.Reader] = {}
        self._batched: Batched | None = None
        self._opening = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Tell whether those that are started still work."""
        return self._batched is None or self._batched.alive

    async def choose(self, engine: str | None, profile: str | None) -> Chosen:
        """Have the reader of this engine and profile, ours where none is named."""
        name, wanted = engine or self._plan.engine, profile or self._plan.profile
        self._require(name, wanted)
        has_profiles = name != config.BATCHED and engines.find(name).has_profiles
        key = name, wanted if has_profiles else engines.BALANCED
        async with self._opening:
            if key not in self._readers:
                self._readers[key] = await self._open(*key)
        return Chosen(self._readers[key], name, wanted)

    async def prove(self) -> None:
        """Start our own reader and have it read a line, so that all it needs is loaded."""
        chosen = await self.choose(None, None)
        found = chosen.reader.read(_test_page(), name="the test line", languages=["eng"])
        pages = [page async for page in found]
        problem = "; ".join(page.error for page in pages if page.error)
        text = " ".join(page.text for page in pages)
        if problem or (self._plan.test_line and text != TEST_LINE):
            raise errors.EngineAway(problem or f"the test line {TEST_LINE!r} was read as {text!r}")

    def _require(self, engine: str, profile: str) -> None:
        known = {**dict.fromkeys(engines.ENGINES), config.BATCHED: None, self._plan.engine: None}
        if engine not in known:
            raise errors.EngineMissing(
                f"there is no engine {engine!r}; choose one of {', '.join(known)}"
            )
        if profile not in engines.PROFILES:
            raise errors.EngineMissing(
                f"there is no profile {profile!r}; choose one of {', '.join(engines.PROFILES)}"
            )

    async def _open(self, name: str, profile: str) -> readers.Reader:
        engine: str | engine_protocol.Engine = name
        if name == config.BATCHED:
            engine = self._batched = await asyncio.to_thread(Batched, self._noted)
            self._resources.callback(engine.close)
        made = readers.Reader(engine=engine, profile=profile, processes=self._plan.processes)
        return await self._resources.enter_async_context(made)


def _test_page() -> bytes:
    page = Image.new("L", (900, 200), 255)
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(page).text((60, 70), TEST_LINE, fill=0, font=font)
    file = io.BytesIO()
    page.save(file, "PNG")
    return file.getvalue()
