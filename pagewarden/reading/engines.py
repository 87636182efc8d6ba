"""Which engines there are, by the names that settings and documents use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.reading import engine
    from pagewarden.reading.lines import crops, readings

DEFAULT = "cascade"
BALANCED = "balanced"
PROFILES = ("fast", BALANCED, "accurate")


Permit = Callable[[str], float]
"""Takes the next place among the calls of an engine of that name; seconds to wait for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an engine is found; imported only when it is made, for some take a second to load.

    A remote engine needs the network, so our own process calls it, and not a child.
    """

    module: str
    maker: str
    has_profiles: bool = False
    remote: bool = False


ENGINES: Mapping[str, Entry] = MappingProxyType(
    {
        "rapid": Entry("pagewarden.reading.rapid", "Rapid"),
        "tesseract": Entry("pagewarden.reading.tesseract", "Tesseract"),
        "cascade": Entry("pagewarden.reading.cascade", "Cascade", has_profiles=True),
        "gemini": Entry("pagewarden.reading.gemini", "Gemini", remote=True),
        "null": Entry("pagewarden.reading.fakes", "Null"),
    }
)
_FAKES: Mapping[str, Entry] = MappingProxyType(
    {
        "fake": Entry("pagewarden.reading.fakes", "FakeEngine"),
        "fake-moody": Entry("pagewarden.reading.fakes", "Moody"),
        "fake-remote": Entry("pagewarden.reading.fakes", "RemoteEngine", remote=True),
        "fake-steady": Entry("pagewarden.reading.fakes", "Steady"),
        "fake-unloadable": Entry("pagewarden.reading.fakes", "Unloadable"),
    }
)


@runtime_checkable
class Preparing(Protocol):
    """An engine that loads some of its models only when it knows what is to be read."""

    def prepare(self, hints: engine.Hints) -> None:
        """Load what pages with these hints need, so that children find it there."""
        ...


@runtime_checkable
class Paced(Protocol):
    """An engine that is somewhere else, and is not asked as often as anybody likes."""

    def ask_first(self, permit: Permit) -> None:
        """Ask this before each call, from whatever thread makes it, and wait as long as it says."""
        ...


@runtime_checkable
class ReadingLines(Protocol):
    """An engine that reads lines which were found and cut out by somebody else."""

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: engine.Hints
    ) -> list[readings.Reading]:
        """Read lines of one page; raises an error of pagewarden.errors."""
        ...


@runtime_checkable
class Closing(Protocol):
    """An engine that holds something which is to be let go, such as connections."""

    def close(self) -> None:
        """Let go of it, and end what is under way."""
        ...


def find(name: str) -> Entry:
    """Find an engine, or say which ones there are."""
    entry = ENGINES.get(name) or _FAKES.get(name)
    if entry is None:
        raise errors.EngineMissing(
            f"there is no engine {name!r}; choose one of {', '.join(ENGINES)}"
        )
    return entry


def make(name: str, profile: str) -> engine.Engine:
    """Load an engine with its models; EngineMissing when something is not installed."""
    entry = find(name)
    maker = getattr(importlib.import_module(entry.module), entry.maker)
    made: engine.Engine = maker(profile) if entry.has_profiles else maker()
    return made
