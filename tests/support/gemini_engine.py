"""The gemini engine for tests, with a server on loopback and a fake clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from pagewarden import settings
from pagewarden.ocr.engines import base
from pagewarden.ocr.engines.gemini import client
from pagewarden.ocr.engines.gemini.engine import GeminiEngine
from tests.support import gemini_server

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., GeminiEngine]

KEY = "a-key-of-nobody"
WIDTH, HEIGHT = 400, 1000

# Tokens that the server counts per request.
TOKENS_IN = gemini_server.INPUT_TOKENS
TOKENS_OUT = gemini_server.OUTPUT_TOKENS + gemini_server.THOUGHT_TOKENS


class FakeClock(client.Clock):
    """A clock that advances only during waits."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        """Return the fake time."""
        return self.time

    def utc_now(self) -> datetime:
        """Return a constant time: two hours before midnight in California, in winter."""
        return datetime(2026, 1, 31, 6, 0, tzinfo=UTC)

    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        super().wait(0)
        if seconds:
            self.waits.append(seconds)
            self.time += seconds


def make_engine(
    server: gemini_server.GeminiServer, clock: client.Clock, **options: Any
) -> GeminiEngine:
    """Make an engine that calls the server."""
    values = {"gemini_api_key": KEY, "gemini_base_url": server.url, **options}
    return GeminiEngine.from_settings(settings.Settings(**values), clock=clock)


def make_page(colour: tuple[int, int, int] = (255, 255, 255)) -> base.PageImage:
    """Draw a page with one word."""
    image = Image.new("RGB", (WIDTH, HEIGHT), colour)
    ImageDraw.Draw(image).text((WIDTH // 5, HEIGHT // 10), "Rechnung", fill="black")
    return base.PageImage(np.asarray(image), dpi=300)


def read_page(gemini: GeminiEngine) -> base.RecognitionResult:
    """Read the page of `make_page`."""
    return gemini.recognise(make_page(), base.PageHints())


def list_texts(recognised: base.RecognitionResult) -> list[str]:
    """Return the text of each line."""
    return [line.text for line in recognised.lines]
