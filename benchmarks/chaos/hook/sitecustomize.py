# ruff: noqa: INP001  # Python finds it by its name
"""Python runs this at the start of every program of the chaos benchmark.

It names the process's Postgres connections after its id, so that the monitor can identify the
caller, and shifts its clock by a random offset of up to five minutes.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from typing import Any

SEED = "CHAOS_SEED"
MAX_OFFSET_SECONDS = 300.0

_Real = dt.datetime


def _shift_clock(seconds: float) -> None:
    real, real_ns = time.time, time.time_ns

    class DatetimeType(type):
        """Accepts instances of the real datetime, which C code creates."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _Real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _Real)

    class ShiftedDatetime(_Real, metaclass=DatetimeType):
        """A datetime with a shifted now()."""

        __slots__ = ()

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:  # noqa: ANN401  # as the real one
            return _Real.now(tz) + dt.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls) -> Any:  # noqa: ANN401  # as the real one
            return _Real.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=seconds)

        @classmethod
        def today(cls) -> Any:  # noqa: ANN401  # as the real one
            return cls.now()

    ShiftedDatetime.__name__ = ShiftedDatetime.__qualname__ = "datetime"
    ShiftedDatetime.__module__ = "datetime"
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    dt.datetime = ShiftedDatetime  # type: ignore[misc]


if SEED in os.environ:
    os.environ["PGAPPNAME"] = f"chaos-{os.getpid()}"
    _rng = random.Random(f"{os.environ[SEED]}-{os.getpid()}")  # noqa: S311  # no secret
    _shift_clock(_rng.uniform(-MAX_OFFSET_SECONDS, MAX_OFFSET_SECONDS))
