"""Fake engines for tests and benchmarks: one that finds no text, and some that fail.

FakeEngine selects a failure by the grey in the middle of the page, so a test draws the failure that
it needs. A white page is read without failure.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pagewarden import errors
from pagewarden.ocr import pages
from pagewarden.ocr.engines import base

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

STEADY_SECONDS = 0.1
FLAKY_SECONDS = 0.02
SLOW_SECONDS = 1.0
SLOW_SHADE = 220
"""Grey level of pages that FlakyEngine takes SLOW_SECONDS to read."""
HANGING_SHADE = 200
"""Grey level of pages on which FlakyEngine sometimes hangs."""
HANGING_SHARE = 0.05
_FOREVER = 3600


class NullEngine:
    """Returns no lines, without delay."""

    name: ClassVar[str] = "null"
    version: ClassVar[str] = "1"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Return no lines."""
        del image, hints
        return base.RecognitionResult(())


class UnloadableEngine(NullEngine):
    """Fails to load, like an engine that is not installed."""

    def __init__(self) -> None:
        raise errors.EngineNotInstalled("the models are missing; install them")


class FakeEngine:
    """Fails as the grey of the page selects; see `FAILURES`."""

    name: ClassVar[str] = "fake"
    version: ClassVar[str] = "1"
    prepared: ClassVar[list[str]] = []

    def prepare(self, hints: base.PageHints) -> None:
        """Record the languages."""
        self.prepared.extend(hints.languages)

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Fail if the middle of the page has the grey of a failure; otherwise return no lines."""
        name = next((name for name, shade in SHADES.items() if _has_shade(shade, image)), None)
        return FAILURES[name](image) if name else NullEngine().recognise(image, hints)


class SteadyEngine(NullEngine):
    """Takes the same time for every page; the text is the size of the page."""

    name: ClassVar[str] = "fake-steady"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Sleep, then return the size as text."""
        del hints
        time.sleep(STEADY_SECONDS)
        return base.RecognitionResult(_line(image, f"{image.width}x{image.height}"))


class SlowEngine(NullEngine):
    """Takes a second for every page, as real engines do, without using a CPU."""

    name: ClassVar[str] = "fake-slow"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Sleep, then return a text."""
        del hints
        time.sleep(1.0)
        return base.RecognitionResult(_line(image, "slow"))


class FlakyEngine(NullEngine):
    """Returns the same text as SteadyEngine, but fails at random; a retry usually succeeds."""

    name: ClassVar[str] = "fake-flaky"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Fail at random; be slow or hang only on pages with the grey for it."""
        del hints
        # Python reseeds random in every forked child.
        number = random.random()  # noqa: S311  # no secret
        if number < HANGING_SHARE and _has_shade(HANGING_SHADE, image):
            return hang(image)
        time.sleep(SLOW_SECONDS if _has_shade(SLOW_SHADE, image) else FLAKY_SECONDS)
        fail = next((fail for threshold, fail in FLAKY_FAILURES if number > threshold), None)
        if fail is not None:
            fail(image)
        return base.RecognitionResult(_line(image, f"{image.width}x{image.height}"))


class FakeRemoteEngine(FakeEngine):
    """Runs in the host process; the text of a white page is its size and the languages."""

    name: ClassVar[str] = "fake-remote"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Fail as FakeEngine does, or return the size and the languages."""
        super().recognise(image, hints)
        text = " ".join([f"{image.width}x{image.height}", *hints.languages])
        return base.RecognitionResult(_line(image, text), pages.Usage(input_tokens=1))


def abort(image: base.PageImage) -> base.RecognitionResult:
    """Abort, as C++ does when an assertion fails."""
    del image
    os.abort()


def hang(image: base.PageImage) -> base.RecognitionResult:
    """Never return within a test."""
    time.sleep(_FOREVER)
    return base.RecognitionResult(_line(image, "awake"))


def raise_engine_unavailable(image: base.PageImage) -> base.RecognitionResult:
    """Raise EngineUnavailable, as if the service was down."""
    del image
    raise errors.EngineUnavailable("the service is not responding; try again later")


def return_unstorable_text(image: base.PageImage) -> base.RecognitionResult:
    """Return text that neither a file nor a database can store."""
    return base.RecognitionResult(_line(image, "a\ud800\x00b"))


def raise_unexpected(image: base.PageImage) -> base.RecognitionResult:
    """Raise an error that is not one of Pagewarden."""
    raise ZeroDivisionError(f"{image.width} / 0")


def probe_confinement(image: base.PageImage) -> base.RecognitionResult:
    """Try actions that the sandbox must prevent; return the names of those that succeed."""
    actions: dict[str, Callable[[], object]] = {
        "write": lambda: Path(__file__).open("ab").close(),
        "write beside": lambda: Path("../stolen").touch(),
        "signal": lambda: os.kill(os.getppid(), 0),
        "network": _send_packet,
        "secrets": lambda: os.environ["PAGEWARDEN_SUPABASE_KEY"],
        "other sockets": _find_other_sockets,
        "name": lambda: socket.sethostname(socket.gethostname()),
    }
    succeeded = [name for name, action in actions.items() if _succeeds(action)]
    return base.RecognitionResult([line for name in succeeded for line in _line(image, name)])


def loop_forever(image: base.PageImage) -> base.RecognitionResult:
    """Use CPU time without end."""
    while True:
        image.pixels.sum()


def crash(image: base.PageImage) -> base.RecognitionResult:
    """Die of a segmentation fault."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return base.RecognitionResult(_line(image, "alive"))


def raise_damaged(image: base.PageImage) -> base.RecognitionResult:
    """Raise DamagedFile."""
    del image
    raise errors.DamagedFile("the page is damaged; scan it again")


def leave_orphan(image: base.PageImage) -> base.RecognitionResult:
    """Start a process that outlives its parent; its id is the text."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.closerange(0, 64)
        time.sleep(_FOREVER)
        os._exit(0)
    return base.RecognitionResult(_line(image, str(pid)))


def exhaust_memory(image: base.PageImage) -> base.RecognitionResult:
    """Allocate memory until there is none left."""
    copies: list[NDArray[np.uint8]] = []
    while True:
        copies.append(image.pixels.repeat(10))


def raise_rate_limited(image: base.PageImage) -> base.RecognitionResult:
    """Raise RateLimited."""
    del image
    raise errors.RateLimited("the rate limit of the service is exceeded; try again later")


def return_invalid_numbers(image: base.PageImage) -> base.RecognitionResult:
    """Return infinity and NaN as coordinates and confidence."""
    quad = pages.Box(float("-inf"), 0, image.width, float("nan")).quad()
    return base.RecognitionResult([pages.Line("a", quad, float("nan"))])


def return_prepared_languages(image: base.PageImage) -> base.RecognitionResult:
    """Return the languages that the zygote was prepared for."""
    return base.RecognitionResult(_line(image, " ".join(FakeEngine.prepared)))


def raise_page_rejected(image: base.PageImage) -> base.RecognitionResult:
    """Raise PageRejected."""
    del image
    raise errors.PageRejected("the service will not read this page; use another engine")


def raise_invalid_response(image: base.PageImage) -> base.RecognitionResult:
    """Raise InvalidEngineResponse."""
    del image
    raise errors.InvalidEngineResponse("the response of the service is incomplete; try again")


FLAKY_FAILURES = ((0.996, raise_rate_limited), (0.992, raise_invalid_response), (0.988, crash))
"""FlakyEngine raises the first failure whose threshold its random number exceeds."""
FAILURES: dict[str, Callable[[base.PageImage], base.RecognitionResult]] = {
    "abort": abort,
    "hang": hang,
    "engine-away": raise_engine_unavailable,
    "unsavable-text": return_unstorable_text,
    "unexpected": raise_unexpected,
    "probe": probe_confinement,
    "loop": loop_forever,
    "crash": crash,
    "damaged": raise_damaged,
    "orphan": leave_orphan,
    "memory": exhaust_memory,
    "invalid-numbers": return_invalid_numbers,
    "languages": return_prepared_languages,
    "refused": raise_page_rejected,
}
SHADES = {name: 10 + 12 * index for index, name in enumerate(FAILURES)}
"""Grey level that triggers each failure."""


def _has_shade(shade: int, image: base.PageImage) -> bool:
    """Tell whether the middle of the page has this grey."""
    found = round(float(image.pixels[image.height // 2, image.width // 2].mean()))
    return abs(found - shade) < 4


def _line(image: base.PageImage, text: str) -> list[pages.Line]:
    return [pages.Line(text, pages.Box(0, 0, image.width, image.height).quad(), 1.0)]


def _succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except (OSError, KeyError):
        return False
    return True


def _send_packet() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", ("127.0.0.1", 9))


def _find_other_sockets() -> None:
    targets = [
        str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
    ]
    if sum(target.startswith(("socket:", "pipe:", "anon_inode:")) for target in targets) < 2:
        raise FileNotFoundError
