# ruff: noqa: INP001  # Python finds it by its name alone
"""Python runs this as it starts, in the programs of the benchmark and nowhere else.

It names the connections of the process to Postgres after it, so that the referee knows who
calls, and sets its clock wrong by up to some minutes, each process by another time.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from typing import Any

SEED = "CHAOS_SEED"
FURTHEST_SECONDS = 300.0

_Real = dt.datetime


def _set_clock_wrong(seconds: float) -> None:
    right, right_ns = time.time, time.time_ns

    class Like(type):
        """What C code makes is of the real type, and is one of ours all the same."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _Real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _Real)

    class Wrong(_Real, metaclass=Like):
        """A datetime whose now is another one."""

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

    Wrong.__name__ = Wrong.__qualname__ = "datetime"
    Wrong.__module__ = "datetime"
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1e9)
    dt.datetime = Wrong  # type: ignore[misc]


if SEED in os.environ:
    os.environ["PGAPPNAME"] = f"chaos-{os.getpid()}"
    _chance = random.Random(f"{os.environ[SEED]}-{os.getpid()}")  # noqa: S311  # no secret
    _set_clock_wrong(_chance.uniform(-FURTHEST_SECONDS, FURTHEST_SECONDS))
