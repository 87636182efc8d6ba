"""OCR engines: the table of engines and profiles by the names that settings and documents use.

Each engine is a module of this package (`gemini` is a folder); `base` has the protocol that they
share. To add an engine, write its module and add a line to `ENGINES`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors, extras

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.ocr.engines import base

DEFAULT = "cascade"
BALANCED = "balanced"
PROFILES = ("fast", BALANCED, "accurate")


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """The module and class of an engine; imported on first use, because some take a second to load.

    A remote engine needs the network, so the host process calls it, not a sandboxed child.
    """

    module: str
    class_name: str
    has_profiles: bool = False
    remote: bool = False


ENGINES: Mapping[str, EngineEntry] = MappingProxyType(
    {
        "rapid": EngineEntry("pagewarden.ocr.engines.rapid", "RapidEngine"),
        "tesseract": EngineEntry("pagewarden.ocr.engines.tesseract", "TesseractEngine"),
        "cascade": EngineEntry(
            "pagewarden.ocr.engines.cascade", "CascadeEngine", has_profiles=True
        ),
        "gemini": EngineEntry("pagewarden.ocr.engines.gemini.engine", "GeminiEngine", remote=True),
        "null": EngineEntry("pagewarden.ocr.engines.fakes", "NullEngine"),
    }
)
_FAKES: Mapping[str, EngineEntry] = MappingProxyType(
    {
        "fake": EngineEntry("pagewarden.ocr.engines.fakes", "FakeEngine"),
        "fake-flaky": EngineEntry("pagewarden.ocr.engines.fakes", "FlakyEngine"),
        "fake-remote": EngineEntry("pagewarden.ocr.engines.fakes", "FakeRemoteEngine", remote=True),
        "fake-steady": EngineEntry("pagewarden.ocr.engines.fakes", "SteadyEngine"),
        "fake-slow": EngineEntry("pagewarden.ocr.engines.fakes", "SlowEngine"),
        "fake-unloadable": EngineEntry("pagewarden.ocr.engines.fakes", "UnloadableEngine"),
    }
)


def find_engine(name: str) -> EngineEntry:
    """Return the entry of an engine; EngineNotInstalled lists the known engines."""
    entry = ENGINES.get(name) or _FAKES.get(name)
    if entry is None:
        raise errors.EngineNotInstalled(
            f"unknown engine {name!r}; choose one of {', '.join(ENGINES)}"
        )
    return entry


def load_engine(name: str, profile: str) -> base.Engine:
    """Load an engine with its models; EngineNotInstalled if something is not installed."""
    entry = find_engine(name)
    try:
        engine_class = getattr(importlib.import_module(entry.module), entry.class_name)
    except ModuleNotFoundError as exc:
        if (missing := extras.make_missing_extra_error(exc)) is None:
            raise
        raise errors.EngineNotInstalled(str(missing)) from exc
    engine: base.Engine = engine_class(profile) if entry.has_profiles else engine_class()
    return engine
