"""Engines for tests and measurements: one that does nothing, and one for each way to fail.

FakeEngine holds all of the latter: the grey in the middle of a page says which one reads it, so a
test draws what it wants to go wrong. White pages go well.
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
from pagewarden.reading import engine, pages

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

STEADY_SECONDS = 0.1
MOODY_SECONDS = 0.02
SLOW_SECONDS = 1.0
SLOW_SHADE = 220
"""The grey of pages that take the moody engine SLOW_SECONDS."""
SULLEN_SHADE = 200
"""The grey of pages over which it falls asleep now and then."""
SULLEN_SHARE = 0.05
_FOREVER = 3600


class Null:
    """Finds nothing, at once."""

    name: ClassVar[str] = "null"
    version: ClassVar[str] = "1"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Find nothing."""
        del image, hints
        return engine.Recognised(())


class Unloadable(Null):
    """Is not installed."""

    def __init__(self) -> None:
        raise errors.EngineMissing("the models are missing; install them")


class FakeEngine:
    """Fails in the way the page asks for."""

    name: ClassVar[str] = "fake"
    version: ClassVar[str] = "1"
    prepared: ClassVar[list[str]] = []

    def prepare(self, hints: engine.Hints) -> None:
        """Take note of the languages."""
        self.prepared.extend(hints.languages)

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Look at the middle of the page; what is not there to fail is read by Null."""
        way = next((name for name, its in SHADES.items() if _is_of(its, image)), None)
        return WAYS[way](image) if way else Null().recognise(image, hints)


class Steady(Null):
    """Takes the same time for every page, and says how large it is."""

    name: ClassVar[str] = "fake-steady"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Wait, and say it."""
        del hints
        time.sleep(STEADY_SECONDS)
        return engine.Recognised(_line(image, f"{image.width}x{image.height}"))


class Moody(Null):
    """Says what Steady says, but not every time: what fails once is read when it is tried again."""

    name: ClassVar[str] = "fake-moody"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Be slow or fall asleep where the grey of the page allows it, and fail now and then."""
        del hints
        # Children are forked, and random begins anew in each of them.
        mood = random.random()  # noqa: S311  # no secret
        if mood < SULLEN_SHARE and _is_of(SULLEN_SHADE, image):
            return asleep(image)
        time.sleep(SLOW_SECONDS if _is_of(SLOW_SHADE, image) else MOODY_SECONDS)
        way = next((way for share, way in MOODS if mood > share), None)
        if way is not None:
            way(image)
        return engine.Recognised(_line(image, f"{image.width}x{image.height}"))


class RemoteEngine(FakeEngine):
    """Is called by our own process; says how large a white page is, and in which language."""

    name: ClassVar[str] = "fake-remote"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Fail, or say it."""
        super().recognise(image, hints)
        text = " ".join([f"{image.width}x{image.height}", *hints.languages])
        return engine.Recognised(_line(image, text), pages.Usage(input_tokens=1))


def abort(image: engine.PageImage) -> engine.Recognised:
    """End as C++ does when something cannot be true."""
    del image
    os.abort()


def asleep(image: engine.PageImage) -> engine.Recognised:
    """Wait for something that never comes."""
    time.sleep(_FOREVER)
    return engine.Recognised(_line(image, "awake"))


def away(image: engine.PageImage) -> engine.Recognised:
    """Need a service that is down."""
    del image
    raise errors.EngineAway("the service does not answer; try again later")


def babbling(image: engine.PageImage) -> engine.Recognised:
    """Give text that neither a file nor a database can carry."""
    return engine.Recognised(_line(image, "a\ud800\x00b"))


def buggy(image: engine.PageImage) -> engine.Recognised:
    """Raise what nobody foresaw."""
    raise ZeroDivisionError(f"{image.width} / 0")


def burglar(image: engine.PageImage) -> engine.Recognised:
    """Try doors that should be locked, and give those that were not as text."""
    doors: dict[str, Callable[[], object]] = {
        "write": lambda: Path(__file__).open("ab").close(),
        "write beside": lambda: Path("../stolen").touch(),
        "signal": lambda: os.kill(os.getppid(), 0),
        "network": _send_a_packet,
        "secrets": lambda: os.environ["PAGEWARDEN_SUPABASE_KEY"],
        "other talks": _find_other_talks,
        "name": lambda: socket.sethostname(socket.gethostname()),
    }
    opened = [name for name, door in doors.items() if _opens(door)]
    return engine.Recognised([line for name in opened for line in _line(image, name)])


def busy(image: engine.PageImage) -> engine.Recognised:
    """Compute for ever."""
    while True:
        image.pixels.sum()


def crash(image: engine.PageImage) -> engine.Recognised:
    """Touch memory that is not its own."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return engine.Recognised(_line(image, "alive"))


def damaged(image: engine.PageImage) -> engine.Recognised:
    """Find the page broken."""
    del image
    raise errors.DamagedFile("the page is broken; scan it again")


def escape(image: engine.PageImage) -> engine.Recognised:
    """Leave a process behind that wants to outlive its parent; its id is the text."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.closerange(0, 64)
        time.sleep(_FOREVER)
        os._exit(0)
    return engine.Recognised(_line(image, str(pid)))


def glutton(image: engine.PageImage) -> engine.Recognised:
    """Want all the memory there is."""
    eaten: list[NDArray[np.uint8]] = []
    while True:
        eaten.append(image.pixels.repeat(10))


def hurried(image: engine.PageImage) -> engine.Recognised:
    """Be asked too often."""
    del image
    raise errors.RateLimited("the service is asked too often; wait a little")


def nowhere(image: engine.PageImage) -> engine.Recognised:
    """Give places that are no numbers."""
    quad = pages.Box(float("-inf"), 0, image.width, float("nan")).quad()
    return engine.Recognised([pages.Line("a", quad, float("nan"))])


def polyglot(image: engine.PageImage) -> engine.Recognised:
    """Say for which languages the zygote was prepared."""
    return engine.Recognised(_line(image, " ".join(FakeEngine.prepared)))


def refusing(image: engine.PageImage) -> engine.Recognised:
    """Refuse the page."""
    del image
    raise errors.AnswerRefused("the service will not read this page; read it yourself")


def stuttering(image: engine.PageImage) -> engine.Recognised:
    """Break off in the middle."""
    del image
    raise errors.AnswerUnusable("the service broke off; ask it again")


MOODS = ((0.996, hurried), (0.992, stuttering), (0.988, crash))
"""Above which number between 0 and 1 the moody engine fails, and how; the first one counts."""
WAYS = {
    way.__name__: way
    for way in (
        abort, asleep, away, babbling, buggy, burglar, busy, crash, damaged, escape, glutton,
        nowhere, polyglot, refusing,
    )
}  # fmt: skip
SHADES = {name: 10 + 12 * index for index, name in enumerate(WAYS)}
"""The grey that asks for each way to fail."""


def _is_of(shade: int, image: engine.PageImage) -> bool:
    """Tell whether the middle of the page has this grey."""
    found = round(float(image.pixels[image.height // 2, image.width // 2].mean()))
    return abs(found - shade) < 4


def _line(image: engine.PageImage, text: str) -> list[pages.Line]:
    return [pages.Line(text, pages.Box(0, 0, image.width, image.height).quad(), 1.0)]


def _opens(door: Callable[[], object]) -> bool:
    try:
        door()
    except (OSError, KeyError):
        return False
    return True


def _send_a_packet() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", ("127.0.0.1", 9))


def _find_other_talks() -> None:
    ways = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    if sum(way.startswith(("socket:", "pipe:", "anon_inode:")) for way in ways) < 2:
        raise FileNotFoundError
