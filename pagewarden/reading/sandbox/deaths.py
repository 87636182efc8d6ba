"""What a child's death says about the document it was reading."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.reading.sandbox import confinement

if TYPE_CHECKING:
    from pagewarden.reading import limits
    from pagewarden.reading.sandbox import host

# PDFium, and most of what is written in C++, aborts when it gets no memory. A buffer that grows
# by doubling fails when it has a third of what there is.
SUSPICIOUS_SHARE = 0.25


def explain(death: host.Died, place: str, bounds: limits.Limits) -> errors.ReadingError:
    """Name the one error that says why the child died; place is the file and the page."""
    status = death.end.status
    if death.timed_out:
        return _timed_out(place, f"{bounds.page_seconds:g} s")
    if status == -signal.SIGXCPU:
        return _timed_out(place, f"{bounds.page_cpu_seconds:g} s of computing")
    crashed = status < 0 and status != -signal.SIGKILL
    eaten = death.end.memory - death.end.born_with
    starved = crashed and eaten > SUSPICIOUS_SHARE * bounds.memory_bytes
    if starved or status == confinement.OUT_OF_MEMORY:
        return errors.OutOfMemory(
            f"{place}: reading it takes more than the {bounds.memory_bytes / 1e6:,.0f} MB of "
            "memory it may use. Scale it down, or raise the limit on memory."
        )
    return errors.ReaderKilled(
        f"{place}: the process that was reading it died ({_cause(status)}). It may be damaged, or "
        "made to do harm; if you trust it, print it to a new PDF and send that."
    )


def out_of_time(name: str, bounds: limits.Limits) -> errors.ReadingTimedOut:
    """Make the error for a document that takes too long as a whole."""
    return errors.ReadingTimedOut(
        f"{name}: not done after {bounds.document_seconds:g} s. Split it, or raise the limit on "
        "time per document."
    )


def _timed_out(place: str, time: str) -> errors.ReadingTimedOut:
    return errors.ReadingTimedOut(
        f"{place}: not done after {time}. Try again when the machine has less to do, or raise the "
        "limit on time per page."
    )


def _cause(status: int) -> str:
    return f"exit status {status}" if status >= 0 else str(signal.strsignal(-status))
