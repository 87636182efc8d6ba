"""Recognise the lines of all pages in flight in shared batches, on one thread.

A batch holds lines of one padded width. Padding depends on the line alone, so the text of a line
does not depend on what else is in its batch. While a batch is read, lines for the next one
collect; no line waits for a batch to fill.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagewarden import errors
from pagewarden.ocr.lines import recognition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.ocr.lines import crops

MAX_LINES = 64
# Pixels of width in one batch: 32 lines of a full page.
MAX_WIDTH = 32 * 1024


class BatchRecogniser(Protocol):
    """Recognises lines of one width together."""

    def read_batch(self, lines: Sequence[recognition.ScaledLine]) -> list[crops.LineReading]:
        """Recognise the lines."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _PendingLine:
    """A line, its page, and the future of its result."""

    number: int
    page: object
    network: BatchRecogniser
    scaled: recognition.ScaledLine
    result: futures.Future[crops.LineReading] = field(default_factory=futures.Future)


class LineBatcher:
    """Runs the thread; `on_batch` receives the number of lines and pages of each batch."""

    def __init__(self, on_batch: Callable[[int, int], None]) -> None:
        self._on_batch = on_batch
        self._groups: dict[tuple[BatchRecogniser, int], deque[_PendingLine]] = {}
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the thread is running."""
        return self._thread.is_alive()

    def read(
        self, network: BatchRecogniser, lines: Sequence[crops.Crop]
    ) -> list[crops.LineReading]:
        """Read the lines of a page; raise the first error."""
        scaled = [
            recognition.scale_line(line.pixels, pad_width=compute_padded_width) for line in lines
        ]
        pending = self._add(network, scaled)
        return [line.result.result() for line in pending]

    def close(self) -> None:
        """End the thread after its current batch; all pending lines fail."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _add(
        self, network: BatchRecogniser, lines: Sequence[recognition.ScaledLine]
    ) -> list[_PendingLine]:
        page = object()
        with self._changed:
            if self._closed or not self.alive:
                raise errors.EngineUnavailable("the GPU service is shutting down; try again later")
            pending = [
                _PendingLine(number, page, network, line)
                for number, line in enumerate(lines, self._count)
            ]
            self._count += len(pending)
            for line in pending:
                self._groups.setdefault((network, line.scaled.width), deque()).append(line)
            self._changed.notify()
        return pending

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._on_batch(len(batch), len({line.page for line in batch}))
                _read(batch)
        finally:
            self._fail_pending()

    def _next_batch(self) -> list[_PendingLine]:
        """Wait for lines, then take the oldest one and others of its width; empty when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._groups or self._closed)
            if self._closed:
                return []
            key, group = min(self._groups.items(), key=lambda item: item[1][0].number)
            size = min(max(MAX_WIDTH // key[1], 1), MAX_LINES, len(group))
            batch = [group.popleft() for _ in range(size)]
            if not group:
                del self._groups[key]
            return batch

    def _fail_pending(self) -> None:
        with self._changed:
            self._closed = True
            for group in self._groups.values():
                for line in group:
                    line.result.set_exception(
                        errors.EngineUnavailable(
                            "the GPU service is shutting down; try again later"
                        )
                    )
            self._groups.clear()


def compute_padded_width(width: int) -> int:
    """Round a width up, by an eighth at most, so that similar lines share a batch."""
    step = max(1 << max(width.bit_length() - 4, 0), recognition.STRIDE)
    return -(-width // step) * step


def _read(batch: Sequence[_PendingLine]) -> None:
    """Read a batch; if that fails, read it line by line, so that only the bad line fails."""
    try:
        found = batch[0].network.read_batch([line.scaled for line in batch])
    except Exception as exc:  # noqa: BLE001  # raised again by LineBatcher.read
        if len(batch) == 1:
            batch[0].result.set_exception(_diagnose(batch[0].network, exc))
        else:
            for line in batch:
                _read([line])
        return
    for line, reading in zip(batch, found, strict=True):
        line.result.set_result(reading)


def _diagnose(network: BatchRecogniser, exc: Exception) -> errors.EngineError:
    """Read a blank line to learn whether the line or the network is at fault."""
    white = np.full((recognition.HEIGHT, recognition.HEIGHT), 255, np.uint8)
    try:
        network.read_batch([recognition.scale_line(white, pad_width=compute_padded_width)])
    except Exception:  # noqa: BLE001  # the first error is the one to report
        return errors.EngineUnavailable(
            f"the recogniser has failed ({exc}); restart the GPU service"
        )
    return errors.InvalidEngineResponse(
        f"a line on the page could not be read ({exc}); try another engine"
    )
