"""FlakyEngine fails at random; other pages are read."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pagewarden import errors
from pagewarden.ocr.engines import base, fakes

if TYPE_CHECKING:
    from collections.abc import Callable

SUCCESS = 0.5


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace `time.sleep`; record the seconds."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Callable[[float, int], str]:
    """Read a page of the given grey, with the given random number."""
    del slept

    def read(number: float, shade: int = 255) -> str:
        monkeypatch.setattr(random, "random", lambda: number)
        image = base.PageImage(np.full((64, 80), shade, np.uint8), 72)
        return fakes.FlakyEngine().recognise(image, base.PageHints()).lines[0].text

    return read


def test_text_is_the_size_of_the_page(read: Callable[..., str]) -> None:
    """Like SteadyEngine."""
    assert read(SUCCESS) == "80x64"


def test_grey_selects_the_duration(read: Callable[..., str], slept: list[float]) -> None:
    """Slow pages take a second; hanging ones hang only below the threshold."""
    read(SUCCESS)
    read(SUCCESS, fakes.SLOW_SHADE)
    read(SUCCESS, fakes.HANGING_SHADE)
    read(fakes.HANGING_SHARE / 2, fakes.HANGING_SHADE)

    assert slept[:3] == [fakes.FLAKY_SECONDS, fakes.SLOW_SECONDS, fakes.FLAKY_SECONDS]
    assert slept[3] > 1000


@pytest.mark.parametrize(
    ("number", "error"), [(0.999, errors.RateLimited), (0.995, errors.InvalidEngineResponse)]
)
def test_fails_above_the_thresholds(
    read: Callable[..., str], number: float, error: type[Exception]
) -> None:
    """With transient errors, so a retry may succeed."""
    with pytest.raises(error) as raised:
        read(number)

    assert isinstance(raised.value, errors.PagewardenError)
    assert raised.value.category is errors.Category.TRANSIENT


def test_crashes_above_the_threshold(
    read: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a bug in a third-party library."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: killed.append(number))
    read(0.99)

    assert killed == [signal.SIGSEGV]
