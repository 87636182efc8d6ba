"""Set the clock of a test run just before the end of a minute, an hour, a day, a month or a year.

libfaketime shifts the clock of every process of the run, including Postgres, by the offset in a
file. The product has no such mechanism: a clock that a session can set would be a vulnerability.
"""

from __future__ import annotations

import datetime as dt
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from pagewarden.local import account

# The first moment of the next minute, hour, and so on.
BOUNDARIES = {
    "minute": dt.datetime(2026, 11, 18, 10, 38, tzinfo=dt.UTC),
    "hour": dt.datetime(2026, 11, 18, 11, 0, tzinfo=dt.UTC),
    "day": dt.datetime(2026, 11, 19, 0, 0, tzinfo=dt.UTC),
    "month": dt.datetime(2026, 12, 1, 0, 0, tzinfo=dt.UTC),
    "year": dt.datetime(2027, 1, 1, 0, 0, tzinfo=dt.UTC),
}
_FILE = "FAKETIME_TIMESTAMP_FILE"
_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def make_environment(file: Path) -> dict[str, str]:
    """Return environment variables that make processes read the time offset from a file."""
    file.write_text("+0")
    file.chmod(0o644)  # the server runs as another user
    return _preload() | {_FILE: str(file), "FAKETIME_NO_CACHE": "1"}


def make_fast_environment(factor: int) -> dict[str, str]:
    """Return environment variables that make the clock of a program run faster by this factor."""
    return _preload() | {"FAKETIME": f"+0 x{factor}"}


def _preload() -> dict[str, str]:
    libraries = [path for pattern in _LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))]
    if not libraries:
        raise LookupError("libfaketime is missing; install the Debian package faketime")
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@dataclass(slots=True)
class Clock:
    """Sets the time of this run; each test starts less than a second before the boundary."""

    boundary: dt.datetime
    file: Path
    _offset: float = 0.0

    @classmethod
    def from_boundary(cls, boundary: str) -> Clock:
        """Use the file of this process's environment, also for Postgres."""
        names = ("LD_PRELOAD", *(name for name in os.environ if name.startswith("FAKETIME_")))
        account._ENVIRONMENT.update({name: os.environ[name] for name in names})  # noqa: SLF001
        return cls(BOUNDARIES[boundary], Path(os.environ[_FILE]))

    def set_for(self, test: str) -> None:
        """Set the time just before the boundary; the name of the test determines the lead."""
        lead = zlib.crc32(test.encode()) % 1000 / 1000
        real = time.time() - self._offset
        self._offset = self.boundary.timestamp() - lead - real
        # Atomically: a process that reads an empty file would use the real time.
        new = self.file.with_suffix(".new")
        new.write_text(f"{self._offset:+.6f}")
        new.chmod(0o644)
        new.replace(self.file)
