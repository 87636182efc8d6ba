"""Lines of many pages are read together, and none of them can tell."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_service import batcher
from pagewarden import errors
from pagewarden.reading import scripts
from pagewarden.reading.lines import crops, readings, recognition
from tests.reading import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE = 20.0
BROKEN = 13


class Network:
    """Reads the grey of a line; waits at the gate before each batch, and breaks at some greys."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.arrived = 0
        self.batches: list[list[int]] = []
        self.breaks_at: tuple[int, ...] = ()

    def read_all(self, lines: Sequence[recognition.Scaled]) -> list[readings.Reading]:
        """Read a batch."""
        self.arrived += 1
        assert self.gate.acquire(timeout=PATIENCE)
        greys = [round(float((line.planes[0, 0, 0] + 1) * 127.5)) for line in lines]
        self.batches.append(greys)
        if set(greys) & set(self.breaks_at):
            raise RuntimeError("this line cannot be read")
        return [readings.Reading((readings.Span(str(g), 1.0, 1.0, 0.0, 1.0),)) for g in greys]


def line(grey: int, width: int = 480) -> crops.Crop:
    """Draw a line of one grey."""
    return crops.Crop(np.full((48, width), grey, np.uint8), np.zeros((4, 2), np.float32))


def _until(condition: Callable[[], bool]) -> None:
    """Wait for another thread."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Bench:
    """A thread that reads, and pages that wait for it."""

    def __init__(self) -> None:
        self.network = Network()
        self.noted: list[tuple[int, int]] = []
        self.together = batcher.Together(lambda *batch: self.noted.append(batch))
        self.pool = futures.ThreadPoolExecutor(8)

    def page(self, *greys: int, width: int = 480) -> futures.Future[list[str]]:
        """Have a page read beside others; returns once its lines are in."""
        before = self.together._count  # noqa: SLF001  # there is no other way to know
        found = self.pool.submit(self._texts, [line(grey, width) for grey in greys])
        _until(lambda: self.together._count == before + len(greys))  # noqa: SLF001
        return found

    def _texts(self, lines: list[crops.Crop]) -> list[str]:
        return [reading.text for reading in self.together.read(self.network, lines)]


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Have a bench, and leave no thread behind."""
    made = Bench()
    try:
        yield made
    finally:
        made.network.gate.release(1000)
        made.together.close()
        made.pool.shutdown()


def test_lines_of_pages_under_way_share_batches(bench: Bench) -> None:
    """While one batch is read, lines of the others gather; all get what is theirs."""
    pages = [bench.page(n, n + 1) for n in (10, 20, 30)]
    bench.network.gate.release(1000)
    assert [page.result(PATIENCE) for page in pages] == [
        ["10", "11"], ["20", "21"], ["30", "31"],
    ]  # fmt: skip
    assert max(of_pages for _, of_pages in bench.noted) >= 2
    assert sum(lines for lines, _ in bench.noted) == 6


def test_lines_of_different_widths_do_not_go_together(bench: Bench) -> None:
    """A short line is not made as long as the longest of others."""
    bench.page(9)
    narrow, wide = bench.page(1, 2, width=100), bench.page(3, 4, width=900)
    bench.network.gate.release(1000)
    assert narrow.result(PATIENCE) == ["1", "2"]
    assert wide.result(PATIENCE) == ["3", "4"]
    assert bench.network.batches == [[9], [1, 2], [3, 4]]


def test_an_error_costs_only_the_page_it_comes_from(bench: Bench) -> None:
    """Whoever was in the same batch is read all the same."""
    bench.network.breaks_at = (BROKEN,)
    first, bad, good = bench.page(1), bench.page(2, BROKEN), bench.page(3, 4)
    bench.network.gate.release(1000)
    assert (first.result(PATIENCE), good.result(PATIENCE)) == (["1"], ["3", "4"])
    with pytest.raises(errors.AnswerUnusable, match="this line cannot be read"):
        bad.result(PATIENCE)
    assert bench.together.alive


def test_a_network_that_reads_nothing_any_more_is_an_outage(bench: Bench) -> None:
    """Then no page is to blame."""
    bench.network.breaks_at = (BROKEN, 255)
    page = bench.page(BROKEN)
    bench.network.gate.release(1000)
    with pytest.raises(errors.EngineAway, match="start the GPU service again"):
        page.result(PATIENCE)


def test_whoever_came_first_is_read_first(bench: Bench) -> None:
    """A page of many lines does not keep another one waiting for ever."""
    long = bench.page(*range(100, 200), width=480)
    short = bench.page(1, width=100)
    bench.network.gate.release(1000)
    assert short.result(PATIENCE) == ["1"]
    assert long.result(PATIENCE) == [str(grey) for grey in range(100, 200)]
    assert list(map(len, bench.network.batches)) == [batcher.MOST_LINES, 36, 1]


def test_a_page_nobody_waits_for_stalls_nobody(bench: Bench) -> None:
    """Its lines are read or not; the others are."""
    abandoned = bench.page(1, 2)
    abandoned.cancel()
    page = bench.page(3)
    bench.network.gate.release(1000)
    assert page.result(PATIENCE) == ["3"]


def test_when_it_stops_everybody_is_told(bench: Bench) -> None:
    """The batch that is being read is finished, the others are for another time."""
    first, second = bench.page(1), bench.page(2, width=900)
    _until(lambda: bench.network.arrived == 1)
    closing = bench.pool.submit(bench.together.close)
    _until(lambda: bench.together._closed)  # noqa: SLF001
    bench.network.gate.release(1)
    closing.result(PATIENCE)
    assert first.result(PATIENCE) == ["1"]
    with pytest.raises(errors.EngineAway):
        second.result(PATIENCE)
    with pytest.raises(errors.EngineAway):
        bench.together.read(bench.network, [line(3)])


@given(st.integers(1, 20_000))
def test_widths_grow_by_an_eighth_at_most(width: int) -> None:
    """And are always what the network can take."""
    wide = batcher.padded(width)
    assert wide % recognition.STRIDE == 0
    assert width <= wide <= max(width * 1.125, width + recognition.STRIDE)
    assert batcher.padded(wide) == wide


@pytest.fixture(scope="module")
def recogniser() -> recognition.Recogniser:
    """Load the network once."""
    return recognition.Recogniser(scripts.is_latin)


@pytest.fixture(scope="module")
def cut() -> list[recognition.Scaled]:
    """Print lines in two sizes, and some that are hard to read."""
    texts = (*printed.ENGLISH, *printed.GERMAN)
    sheets = [
        printed.page([text], size=size, noise=noise).pixels[size + 30 : -size - 30, 60:-60]
        for text in texts
        for size, noise in ((40, 0.0), (40, 0.25), (30, 0.1))
    ]
    return [recognition.scale(sheet, padded=batcher.padded) for sheet in sheets]


@pytest.fixture(scope="module")
def alone(
    recogniser: recognition.Recogniser, cut: list[recognition.Scaled]
) -> list[readings.Reading]:
    """Read every line by itself."""
    return [recogniser.read_all([one])[0] for one in cut]


@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_what_is_read_does_not_depend_on_the_company(
    recogniser: recognition.Recogniser,
    cut: list[recognition.Scaled],
    alone: list[readings.Reading],
    data: st.DataObject,
) -> None:
    """Any lines of one width, in any order, read as each of them does alone."""
    width = data.draw(st.sampled_from(sorted({one.width for one in cut})))
    same = [index for index, one in enumerate(cut) if one.width == width]
    batch = data.draw(st.lists(st.sampled_from(same), min_size=1, max_size=6))
    found = recogniser.read_all([cut[index] for index in batch])
    for index, reading in zip(batch, found, strict=True):
        assert reading.text == alone[index].text
        assert reading.confidence == pytest.approx(alone[index].confidence, abs=1e-3)
