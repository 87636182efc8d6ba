"""The gemini engine for tests: asks a server on loopback, in a time that only waiting moves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from pagewarden import settings
from pagewarden.reading import engine
from pagewarden.reading.gemini import Gemini, pace
from tests.support import gemini_server as served

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Gemini]

KEY = "a-key-of-nobody"
WIDTH, HEIGHT = 400, 1000

# What the server counts for one request.
TOKENS_IN = served.INPUT_TOKENS
TOKENS_OUT = served.OUTPUT_TOKENS + served.THOUGHT_TOKENS


class StillClock(pace.Clock):
    """A clock that only moves when somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        """Tell the time that was waited away."""
        return self.time

    def utc(self) -> datetime:
        """It is always two hours before a new day in California, in winter."""
        return datetime(2026, 1, 31, 6, 0, tzinfo=UTC)

    def wait(self, seconds: float) -> None:
        """Jump ahead."""
        super().wait(0)
        if seconds:
            self.waits.append(seconds)
            self.time += seconds


def made(server: served.GeminiServer, clock: pace.Clock, **given: Any) -> Gemini:
    """Make an engine that asks the server."""
    known = {"gemini_api_key": KEY, "gemini_base_url": server.url, **given}
    return Gemini.from_settings(settings.Settings(**known), clock=clock)


def page(colour: tuple[int, int, int] = (255, 255, 255)) -> engine.PageImage:
    """Paint a page with a word on it."""
    image = Image.new("RGB", (WIDTH, HEIGHT), colour)
    ImageDraw.Draw(image).text((WIDTH // 5, HEIGHT // 10), "Rechnung", fill="black")
    return engine.PageImage(np.asarray(image), dpi=300)


def read(gemini: Gemini) -> engine.Recognised:
    """Read that page."""
    return gemini.recognise(page(), engine.Hints())


def texts(recognised: engine.Recognised) -> list[str]:
    """Give only the text of each line."""
    return [line.text for line in recognised.lines]
