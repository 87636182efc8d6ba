"""Engines for tests and measurements: one that does nothing, and one for each way to fail.

The failing ones fail on dark pages only, and read the others like the null engine.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, ClassVar

from pagewarden import errors
from pagewarden.reading import engine, pages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DARK = 128
_FOREVER = 3600


class Null:
    """Finds nothing, at once."""

    name: ClassVar[str] = "null"
    version: ClassVar[str] = "1"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Find nothing."""
        del image, hints
        return engine.Recognised(())


class Fake:
    """Reads light pages like the null engine, and does something worse with dark ones."""

    version: ClassVar[str] = "1"

    @property
    def name(self) -> str:
        """Name it by its class."""
        return f"fake-{type(self).__name__.lower()}"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Look at the middle of the page."""
        del hints
        if image.pixels[image.height // 2, image.width // 2].mean() < DARK:
            return self.fail(image)
        return engine.Recognised(())

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Do what this fake is for."""
        raise NotImplementedError


class Abort(Fake):
    """Ends as C++ does when something cannot be true."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Abort."""
        del image
        os.abort()


class Asleep(Fake):
    """Waits for something that never comes."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Sleep."""
        del image
        time.sleep(_FOREVER)
        return engine.Recognised(())


class Away(Fake):
    """Needs a service that is down."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Report the outage."""
        del image
        raise errors.EngineAway("the service does not answer; try again later")


class Babbler(Fake):
    """Gives text and numbers that no file and no database can carry."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Babble."""
        quad = pages.Box(float("-inf"), 0, image.width, float("nan")).quad()
        word = pages.Word("\ud800\x00\uffff", quad, float("nan"))
        return engine.Recognised([pages.Line("a\ud800\x00b", quad, 17.0, (word,))])


class Bug(Fake):
    """Has a bug."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Raise what nobody foresaw."""
        raise ZeroDivisionError(f"{image.width} / 0")


class Busy(Fake):
    """Computes for ever."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Spin."""
        while True:
            image.pixels.sum()


class Crash(Fake):
    """Touches memory that is not its own."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Crash."""
        del image
        os.kill(os.getpid(), signal.SIGSEGV)
        return engine.Recognised(())


class Damaged(Fake):
    """Finds the page broken."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Raise an error of ours."""
        del image
        raise errors.DamagedFile("the page is broken; scan it again")


class Escape(Fake):
    """Leaves a process behind that wants to outlive it."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Start a process in a session of its own, whose id is the text of the page."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.closerange(0, 64)
            time.sleep(_FOREVER)
            os._exit(0)
        quad = pages.Box(0, 0, image.width, image.height).quad()
        return engine.Recognised([pages.Line(str(pid), quad, 1.0)])


class Glutton(Fake):
    """Wants all the memory there is."""

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Eat."""
        eaten: list[NDArray[np.uint8]] = []
        while True:
            eaten.append(image.pixels.copy())


class Remote(Fake):
    """Is called by our own process; reads the size of light pages."""

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Say how large the page is, and in which languages."""
        super().recognise(image, hints)
        text = " ".join([f"{image.width}x{image.height}", *hints.languages])
        quad = pages.Box(0, 0, image.width, image.height).quad()
        usage = pages.Usage(input_tokens=1)
        return engine.Recognised([pages.Line(text, quad, 1.0)], usage)

    def fail(self, image: engine.PageImage) -> engine.Recognised:
        """Refuse the page."""
        del image
        raise errors.AnswerRefused("the service will not read this page; read it by hand")


class Unloadable(Null):
    """Is not installed."""

    def __init__(self) -> None:
        raise errors.EngineMissing("the models are missing; install them")
