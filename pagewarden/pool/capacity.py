"""CPUs and memory of a machine: a worker reserves its share before it claims a document.

All programs of a machine share its limits. Each publishes what it has reserved in a small file of a
common folder. It writes first and then reads the others, so two programs that reserve concurrently
may both step back, but never both proceed. There is no lock that a suspended program could hold.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

MB_PER_PROCESS = 512
MAX_AGE_SECONDS = 20.0
"""A program that is silent for this long is suspended; the locks of its documents have expired."""

_CGROUP = Path("/sys/fs/cgroup")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ResourceCost:
    """What reading documents takes."""

    cpu: float = 0.0
    megabytes: float = 0.0

    def __add__(self, other: ResourceCost) -> ResourceCost:
        return ResourceCost(self.cpu + other.cpu, self.megabytes + other.megabytes)

    def __sub__(self, other: ResourceCost) -> ResourceCost:
        return ResourceCost(self.cpu - other.cpu, self.megabytes - other.megabytes)


NO_COST = ResourceCost()

COSTS: Mapping[str, ResourceCost] = MappingProxyType(
    {
        "index": ResourceCost(1.5, 750),
        "acte": ResourceCost(1.0, 512),
        "image": ResourceCost(1.0, 512),
        "pdf": ResourceCost(1.0, 768),
        "check": ResourceCost(1.0, 512),
    }
)


def count_cpus() -> float:
    """Return the number of CPUs that this process may use."""
    cpus = float(len(os.sched_getaffinity(0)))
    quota, _, period = _read_cgroup("cpu.max").partition(" ")
    return min(cpus, int(quota) / int(period)) if quota.isdecimal() else cpus


def measure_megabytes() -> float:
    """Return the memory that this process may use."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read_cgroup("memory.max")
    return min(installed, int(limit) if limit.isdecimal() else installed) / 2**20


def _read_cgroup(name: str) -> str:
    with contextlib.suppress(OSError):
        return (_CGROUP / name).read_text("ascii").strip()
    return ""


def recommend_size(cpu: float, megabytes: float) -> int:
    """Return how many documents a machine can read concurrently: one per core, if memory allows."""
    return max(1, min(int(cpu), int(megabytes // MB_PER_PROCESS)))


class MachineUsage:
    """What the programs of our account on this machine have reserved; see open_machine_usage()."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._host = f"{socket.gethostname()}-"
        self._file = folder / f"{self._host}{os.getpid()}-{next(_numbers)}"

    def publish(self, cost: ResourceCost) -> None:
        """Let the others know what this program has reserved, at least every MAX_AGE_SECONDS."""
        part = self._file.with_name(f"{self._file.name}.part")
        with contextlib.suppress(OSError):  # a full disk; the others see the last figures
            part.write_text(f"{cost.cpu} {cost.megabytes}", "ascii")
            part.replace(self._file)

    def measure_others(self) -> ResourceCost:
        """Add up what other programs that are alive have reserved."""
        total = NO_COST
        for file in self._folder.glob("*-*[0-9]"):
            with contextlib.suppress(OSError, ValueError):  # it has just ended
                if file == self._file:
                    continue
                local_name = file.name.removeprefix(self._host)
                if (
                    local_name != file.name
                    and not Path("/proc", local_name.partition("-")[0]).exists()
                ):
                    file.unlink()
                elif file.stat().st_mtime > time.time() - MAX_AGE_SECONDS:
                    cpu, megabytes = map(float, file.read_text("ascii").split())
                    total += ResourceCost(cpu, megabytes)
        return total

    def close(self) -> None:
        """Remove the figures of this program."""
        self._file.unlink(missing_ok=True)


@contextlib.contextmanager
def open_machine_usage(folder: Path | None = None) -> Iterator[MachineUsage]:
    """Open the figures of this machine, by default in the folder for temporary files."""
    folder = folder or Path(tempfile.gettempdir(), f"pagewarden-pool-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        raise errors.SettingsError(f"{folder} belongs to another account; remove it")
    usage = MachineUsage(folder)
    try:
        yield usage
    finally:
        usage.close()


class Capacity:
    """The CPUs and memory that documents may reserve; on_release is called when some become free.

    A document starts while a CPU is free, because CPUs can be shared, and if there is memory for
    it. One document always fits: on a machine that is too small for it, waiting does not help.
    """

    def __init__(
        self,
        limit: ResourceCost,
        usage: MachineUsage | None = None,
        *,
        on_release: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = limit
        self._usage = usage
        self._reserved = NO_COST
        self.on_release = on_release

    @contextlib.contextmanager
    def reserve(self, lanes: Sequence[str], urgent: Collection[str] = ()) -> Iterator[Reservation]:
        """Reserve capacity for one document of those lanes for which there is enough.

        While no urgent lane fits, nothing is reserved: it would never get enough otherwise.
        """
        reservation = Reservation(self)
        reservation.change(lanes)  # before the check, see above
        try:
            fitting = self.list_fitting(lanes, reservation)
            has_priority = not urgent or any(lane in urgent for lane in fitting)
            reservation.change(fitting if has_priority else [])
            yield reservation
        finally:
            reservation.change([])
            # After a claim that found nothing, on_release would wake the same workers forever.
            if reservation.is_confirmed:
                self.on_release()

    def list_fitting(self, lanes: Sequence[str], reservation: Reservation) -> list[str]:
        """List the lanes of which a document fits in place of a reservation."""
        reserved = self._reserved - reservation.cost
        if self._usage is not None:
            reserved += self._usage.measure_others()
        free = self._limit - reserved
        if reserved.megabytes <= 0:
            return list(lanes)
        return [lane for lane in lanes if free.cpu > 0 and free.megabytes >= COSTS[lane].megabytes]

    def change(self, cost: ResourceCost) -> None:
        """Reserve a cost, or release a negative one."""
        self._reserved += cost
        self.publish()

    def publish(self) -> None:
        """Let other programs know what this one has reserved."""
        if self._usage is not None:
            self._usage.publish(self._reserved)


@dataclass(slots=True)
class Reservation:
    """Capacity for one document of any of these lanes; without lanes there was not enough."""

    capacity: Capacity
    lanes: Sequence[str] = ()
    cost: ResourceCost = NO_COST
    is_confirmed: bool = False

    def change(self, lanes: Sequence[str]) -> None:
        """Reserve what a document of any of these lanes takes at most."""
        costs = [COSTS[lane] for lane in lanes] or [NO_COST]
        cost = ResourceCost(max(c.cpu for c in costs), max(c.megabytes for c in costs))
        self.capacity.change(cost - self.cost)
        self.lanes, self.cost = lanes, cost

    def confirm(self, lane: str) -> None:
        """Change the reservation to what a document of this lane takes."""
        self.change([lane])
        self.is_confirmed = True
        self.capacity.on_release()
