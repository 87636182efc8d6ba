"""Lines of many pages share batches, and the result of a line does not depend on its batch."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.gpu_service import batcher
from pagewarden.ocr import languages
from pagewarden.ocr.lines import crops, recognition
from tests.ocr import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TIMEOUT_SECONDS = 20.0
BROKEN = 13


class Network:
    """Reads the grey of a line; waits at the gate before each batch, and fails at some greys."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.arrived = 0
        self.batches: list[list[int]] = []
        self.fails_at: tuple[int, ...] = ()

    def read_batch(self, lines: Sequence[recognition.ScaledLine]) -> list[crops.LineReading]:
        """Read a batch."""
        self.arrived += 1
        assert self.gate.acquire(timeout=TIMEOUT_SECONDS)
        greys = [round(float((line.planes[0, 0, 0] + 1) * 127.5)) for line in lines]
        self.batches.append(greys)
        if set(greys) & set(self.fails_at):
            raise RuntimeError("this line cannot be read")
        return [crops.LineReading((crops.WordSpan(str(g), 1.0, 1.0, 0.0, 1.0),)) for g in greys]


def line(grey: int, width: int = 480) -> crops.Crop:
    """Draw a line of one grey."""
    return crops.Crop(np.full((48, width), grey, np.uint8), np.zeros((4, 2), np.float32))


def _until(condition: Callable[[], bool]) -> None:
    """Wait for another thread."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class BatcherSetup:
    """A batcher with a fake network, and threads that send it pages."""

    def __init__(self) -> None:
        self.network = Network()
        self.batches: list[tuple[int, int]] = []
        self.batcher = batcher.LineBatcher(lambda *batch: self.batches.append(batch))
        self.pool = futures.ThreadPoolExecutor(8)

    def page(self, *greys: int, width: int = 480) -> futures.Future[list[str]]:
        """Read a page in another thread; return once its lines are queued."""
        before = self.batcher._count  # noqa: SLF001  # no public way to see it
        found = self.pool.submit(self._texts, [line(grey, width) for grey in greys])
        _until(lambda: self.batcher._count == before + len(greys))  # noqa: SLF001
        return found

    def _texts(self, lines: list[crops.Crop]) -> list[str]:
        return [reading.text for reading in self.batcher.read(self.network, lines)]


@pytest.fixture
def setup() -> Iterator[BatcherSetup]:
    """Make a batcher, and end its threads afterwards."""
    created = BatcherSetup()
    try:
        yield created
    finally:
        created.network.gate.release(1000)
        created.batcher.close()
        created.pool.shutdown()


def test_lines_of_concurrent_pages_share_batches(setup: BatcherSetup) -> None:
    """Lines collect while a batch is read; each page gets its own text."""
    pages = [setup.page(n, n + 1) for n in (10, 20, 30)]
    setup.network.gate.release(1000)
    assert [page.result(TIMEOUT_SECONDS) for page in pages] == [
        ["10", "11"], ["20", "21"], ["30", "31"],
    ]  # fmt: skip
    assert max(of_pages for _, of_pages in setup.batches) >= 2
    assert sum(lines for lines, _ in setup.batches) == 6


def test_lines_of_different_widths_are_in_different_batches(setup: BatcherSetup) -> None:
    """A short line is not padded to the width of a long one."""
    setup.page(9)
    narrow, wide = setup.page(1, 2, width=100), setup.page(3, 4, width=900)
    setup.network.gate.release(1000)
    assert narrow.result(TIMEOUT_SECONDS) == ["1", "2"]
    assert wide.result(TIMEOUT_SECONDS) == ["3", "4"]
    assert setup.network.batches == [[9], [1, 2], [3, 4]]


def test_line_error_fails_only_its_page(setup: BatcherSetup) -> None:
    """Other lines of the batch are read."""
    setup.network.fails_at = (BROKEN,)
    first, bad, good = setup.page(1), setup.page(2, BROKEN), setup.page(3, 4)
    setup.network.gate.release(1000)
    assert (first.result(TIMEOUT_SECONDS), good.result(TIMEOUT_SECONDS)) == (["1"], ["3", "4"])
    with pytest.raises(errors.InvalidEngineResponse, match="this line cannot be read"):
        bad.result(TIMEOUT_SECONDS)
    assert setup.batcher.alive


def test_broken_network_is_an_outage(setup: BatcherSetup) -> None:
    """No page is at fault."""
    setup.network.fails_at = (BROKEN, 255)
    page = setup.page(BROKEN)
    setup.network.gate.release(1000)
    with pytest.raises(errors.EngineUnavailable, match="restart the GPU service"):
        page.result(TIMEOUT_SECONDS)


def test_oldest_line_is_read_first(setup: BatcherSetup) -> None:
    """A page of many lines does not starve others."""
    long = setup.page(*range(100, 200), width=480)
    short = setup.page(1, width=100)
    setup.network.gate.release(1000)
    assert short.result(TIMEOUT_SECONDS) == ["1"]
    assert long.result(TIMEOUT_SECONDS) == [str(grey) for grey in range(100, 200)]
    assert list(map(len, setup.network.batches)) == [batcher.MAX_LINES, 36, 1]


def test_cancelled_page_does_not_block_others(setup: BatcherSetup) -> None:
    """Its own lines may be read or not."""
    abandoned = setup.page(1, 2)
    abandoned.cancel()
    page = setup.page(3)
    setup.network.gate.release(1000)
    assert page.result(TIMEOUT_SECONDS) == ["3"]


def test_close_finishes_the_batch_and_fails_pending_lines(setup: BatcherSetup) -> None:
    """Lines sent after that fail too."""
    first, second = setup.page(1), setup.page(2, width=900)
    _until(lambda: setup.network.arrived == 1)
    closing = setup.pool.submit(setup.batcher.close)
    _until(lambda: setup.batcher._closed)  # noqa: SLF001
    setup.network.gate.release(1)
    closing.result(TIMEOUT_SECONDS)
    assert first.result(TIMEOUT_SECONDS) == ["1"]
    with pytest.raises(errors.EngineUnavailable):
        second.result(TIMEOUT_SECONDS)
    with pytest.raises(errors.EngineUnavailable):
        setup.batcher.read(setup.network, [line(3)])


@given(st.integers(1, 20_000))
def test_padding_adds_an_eighth_at_most(width: int) -> None:
    """Padded widths fit the stride of the network."""
    wide = batcher.compute_padded_width(width)
    assert wide % recognition.STRIDE == 0
    assert width <= wide <= max(width * 1.125, width + recognition.STRIDE)
    assert batcher.compute_padded_width(wide) == wide


@pytest.fixture(scope="module")
def recogniser() -> recognition.Recogniser:
    """Load the recogniser once."""
    return recognition.Recogniser(languages.is_latin)


@pytest.fixture(scope="module")
def cut() -> list[recognition.ScaledLine]:
    """Print lines in two sizes, some with noise."""
    texts = (*printed.ENGLISH, *printed.GERMAN)
    sheets = [
        printed.page([text], size=size, noise=noise).pixels[size + 30 : -size - 30, 60:-60]
        for text in texts
        for size, noise in ((40, 0.0), (40, 0.25), (30, 0.1))
    ]
    return [
        recognition.scale_line(sheet, pad_width=batcher.compute_padded_width) for sheet in sheets
    ]


@pytest.fixture(scope="module")
def alone(
    recogniser: recognition.Recogniser, cut: list[recognition.ScaledLine]
) -> list[crops.LineReading]:
    """Read every line alone."""
    return [recogniser.read_batch([one])[0] for one in cut]


@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_text_of_a_line_does_not_depend_on_its_batch(
    recogniser: recognition.Recogniser,
    cut: list[recognition.ScaledLine],
    alone: list[crops.LineReading],
    data: st.DataObject,
) -> None:
    """Any lines of one width, in any order, read as each does alone."""
    width = data.draw(st.sampled_from(sorted({one.width for one in cut})))
    same = [index for index, one in enumerate(cut) if one.width == width]
    batch = data.draw(st.lists(st.sampled_from(same), min_size=1, max_size=6))
    found = recogniser.read_batch([cut[index] for index in batch])
    for index, reading in zip(batch, found, strict=True):
        assert reading.text == alone[index].text
        assert reading.confidence == pytest.approx(alone[index].confidence, abs=1e-3)
