"""What a process gives up before it touches a foreign byte. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import tempfile
from pathlib import Path

from pagewarden.reading.sandbox import landlock

# Names of <sys/prctl.h>, <sys/capability.h> and <sched.h>, which Python 3.11 does not know.
PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAP_DAC_READ_SEARCH = 2
MOST_RIGHTS = 64
LINUX_CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

OPEN_FILES = 64
OUT_OF_MEMORY = 77
"""Exit status of a child that has no memory left, not even to say so."""
PASSED_ON = frozenset(
    {"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TESSDATA_PREFIX", "TMPDIR", "TZ"}
)
# One process per core reads; threads inside would only get in their way, and a process with
# threads cannot be forked. onnxruntime would start one to report to its maker.
TUNED = {
    "OMP_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    # Without these, memory of each page image goes back to the kernel and is got again for the
    # next one, which took a quarter of the time of a page that is only parsed and set upright.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}

_libc = ctypes.CDLL(None, use_errno=True)


def environment() -> dict[str, str]:
    """Give the variables that parsing may need, and none that may be a secret."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith("LC_")
    }
    return passed | TUNED


def leave_network() -> None:
    """Move this process and all it will fork into a network without any interface.

    Root may do so at once, others in a user namespace; where the kernel allows neither, the
    network stays.
    """
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(CLONE_NEWNET) == 0 or _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def drop_rights() -> None:
    """Give up what root may do, and who has a user namespace of his own; for good.

    Only reading files of others remains: root may well be asked to read those.
    """
    for right in range(MOST_RIGHTS):
        if right != CAP_DAC_READ_SEARCH:
            _libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)
    kept = 1 << CAP_DAC_READ_SEARCH if os.getuid() == 0 else 0
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    rights = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _libc.capset(header, rights)


def adopt_orphans() -> None:
    """Become the parent of every process that our children leave behind."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cut_ties(channel: int, parent: int) -> int:
    """Keep nothing of the parent but one descriptor, and die with it; give its new number."""
    os.setpgid(0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(channel)
    for number, descriptor in enumerate((nothing, nothing, nothing, kept)):
        os.dup2(descriptor, number, inheritable=number < 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return 3


def settle(folder: str) -> None:
    """Make folder the place of all temporary files, and of no others."""
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    landlock.restrict(folder)


def limit(*, memory: int, file_size: int) -> None:
    """Bound memory (beyond what is in use now), files and descriptors, in bytes; forbid cores."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    total = address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))


def grant_cpu(seconds: float) -> None:
    """Allow this much processor time from now on; SIGXCPU ends what takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def address_space() -> int:
    """Count the bytes of virtual memory of this process."""
    return _statm("self", 0)


def resident(pid: int) -> int:
    """Count the bytes of physical memory of a process; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return _statm(str(pid), 1)
    return 0


def _statm(process: str, field: int) -> int:
    numbers = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    return int(numbers[field]) * resource.getpagesize()
