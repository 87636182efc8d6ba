"""The time; tests have another one."""

from __future__ import annotations

import datetime as dt


def utc_now() -> dt.datetime:
    """Give the time, with its zone."""
    return dt.datetime.now(dt.UTC)
