"""The moody engine fails as it is asked to by chance, and reads everything in the end."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pagewarden import errors
from pagewarden.reading import engine, fakes

if TYPE_CHECKING:
    from collections.abc import Callable

WELL = 0.5


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody sleeps; how long it would have been is written down."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Callable[[float, int], str]:
    """Read a page of a grey in a mood."""
    del slept

    def read(mood: float, shade: int = 255) -> str:
        monkeypatch.setattr(random, "random", lambda: mood)
        image = engine.PageImage(np.full((64, 80), shade, np.uint8), 72)
        return fakes.Moody().recognise(image, engine.Hints()).lines[0].text

    return read


def test_a_page_reads_like_its_size(read: Callable[..., str]) -> None:
    """The same as with the steady engine."""
    assert read(WELL) == "80x64"


def test_the_grey_of_a_page_says_how_long_it_takes(
    read: Callable[..., str], slept: list[float]
) -> None:
    """Slow ones take a second, and over sullen ones it falls asleep in the wrong mood only."""
    read(WELL)
    read(WELL, fakes.SLOW_SHADE)
    read(WELL, fakes.SULLEN_SHADE)
    read(fakes.SULLEN_SHARE / 2, fakes.SULLEN_SHADE)

    assert slept[:3] == [fakes.MOODY_SECONDS, fakes.SLOW_SECONDS, fakes.MOODY_SECONDS]
    assert slept[3] > 1000


@pytest.mark.parametrize(
    ("mood", "error"), [(0.999, errors.RateLimited), (0.995, errors.AnswerUnusable)]
)
def test_now_and_then_it_fails(
    read: Callable[..., str], mood: float, error: type[Exception]
) -> None:
    """With errors that trying again helps against."""
    with pytest.raises(error) as raised:
        read(mood)

    assert isinstance(raised.value, errors.PagewardenError)
    assert raised.value.category is errors.Category.TRANSIENT


def test_now_and_then_it_kills_its_process(
    read: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a bug in a foreign library does."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: killed.append(number))
    read(0.99)

    assert killed == [signal.SIGSEGV]
