"""One thread reads the lines of all pages that are under way, as many at once as fit together.

Lines of one width go together: what is added to a line depends on the line alone, and so does what
is read from it. While a batch is read, lines for the next one gather; nobody waits for more.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagewarden import errors
from pagewarden.reading.lines import recognition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.reading.lines import crops, readings

MOST_LINES = 64
# Pixels of width in one batch: 32 lines of a full page.
MOST_WIDTH = 32 * 1024


class Network(Protocol):
    """What reads lines of one width together."""

    def read_all(self, lines: Sequence[recognition.Scaled]) -> list[readings.Reading]:
        """Read them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A line, the page it is from, and whoever waits for it."""

    number: int
    page: object
    network: Network
    scaled: recognition.Scaled
    found: futures.Future[readings.Reading] = field(default_factory=futures.Future)


class Together:
    """The thread; noted is told of each batch: how many lines, of how many pages."""

    def __init__(self, noted: Callable[[int, int], None]) -> None:
        self._noted = noted
        self._groups: dict[tuple[Network, int], deque[_Waiting]] = {}
        self._news = threading.Condition()
        self._count = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="lines", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether anybody reads."""
        return self._thread.is_alive()

    def read(self, network: Network, lines: Sequence[crops.Crop]) -> list[readings.Reading]:
        """Read the lines of a page; raises the first error that one of them met with."""
        scaled = [recognition.scale(line.pixels, padded=padded) for line in lines]
        waiting = self._add(network, scaled)
        return [line.found.result() for line in waiting]

    def close(self) -> None:
        """End the thread after the batch it reads; whoever waits is told."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()

    def _add(self, network: Network, lines: Sequence[recognition.Scaled]) -> list[_Waiting]:
        page = object()
        with self._news:
            if self._closed or not self.alive:
                raise errors.EngineAway("the GPU service stops; try again when it is back")
            waiting = [
                _Waiting(number, page, network, line)
                for number, line in enumerate(lines, self._count)
            ]
            self._count += len(waiting)
            for line in waiting:
                self._groups.setdefault((network, line.scaled.width), deque()).append(line)
            self._news.notify()
        return waiting

    def _work(self) -> None:
        try:
            while batch := self._next():
                self._noted(len(batch), len({line.page for line in batch}))
                _read(batch)
        finally:
            self._give_up()

    def _next(self) -> list[_Waiting]:
        """Wait for lines, and take those that fit together with whoever came first."""
        with self._news:
            self._news.wait_for(lambda: self._groups or self._closed)
            if self._closed:
                return []
            key, group = min(self._groups.items(), key=lambda item: item[1][0].number)
            most = min(max(MOST_WIDTH // key[1], 1), MOST_LINES, len(group))
            batch = [group.popleft() for _ in range(most)]
            if not group:
                del self._groups[key]
            return batch

    def _give_up(self) -> None:
        with self._news:
            self._closed = True
            for group in self._groups.values():
                for line in group:
                    line.found.set_exception(errors.EngineAway("the GPU service stops"))
            self._groups.clear()


def padded(width: int) -> int:
    """Give lines of about the same width the same one: an eighth wider at most, mostly less."""
    step = max(1 << max(width.bit_length() - 4, 0), recognition.STRIDE)
    return -(-width // step) * step


def _read(batch: Sequence[_Waiting]) -> None:
    """Read a batch; when that fails, line by line, so that it costs no other page anything."""
    try:
        found = batch[0].network.read_all([line.scaled for line in batch])
    except Exception as exc:  # noqa: BLE001  # raised again where the line is waited for
        if len(batch) == 1:
            batch[0].found.set_exception(_explained(batch[0].network, exc))
        else:
            for line in batch:
                _read([line])
        return
    for line, reading in zip(batch, found, strict=True):
        line.found.set_result(reading)


def _explained(network: Network, exc: Exception) -> errors.EngineError:
    """Find out whether it was the line, or whether nothing can be read any more."""
    white = np.full((recognition.HEIGHT, recognition.HEIGHT), 255, np.uint8)
    try:
        network.read_all([recognition.scale(white, padded=padded)])
    except Exception:  # noqa: BLE001  # the first error is the one to be told
        return errors.EngineAway(f"the recogniser is broken ({exc}); start the GPU service again")
    return errors.AnswerUnusable(f"a line of the page cannot be read ({exc}); try another engine")
