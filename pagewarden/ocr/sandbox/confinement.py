"""Confine a process before it parses untrusted bytes: rights, network, memory. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import tempfile
from pathlib import Path

from pagewarden.ocr.sandbox import landlock

# Constants of <sys/prctl.h>, <sys/capability.h> and <sched.h>, which Python 3.11 does not have.
PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAP_DAC_READ_SEARCH = 2
MAX_CAPABILITIES = 64
LINUX_CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

OPEN_FILES = 64
OUT_OF_MEMORY = 77
"""Exit status of a child that has no memory left for sending an error."""
_INHERITED_VARIABLES = frozenset(
    {"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TESSDATA_PREFIX", "TMPDIR", "TZ"}
)
# One process per core reads pages; more threads would only compete for the cores, and a process
# with threads cannot be forked. onnxruntime would start a thread for telemetry.
_TUNING_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    # Without these, the memory of each page image is returned to the kernel and requested again,
    # which took a quarter of the time of a page that is only parsed and straightened.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}

_libc = ctypes.CDLL(None, use_errno=True)


def make_child_environment() -> dict[str, str]:
    """Return the variables that parsing may need, and none that may be a secret."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED_VARIABLES or name.startswith("LC_")
    }
    return inherited | _TUNING_VARIABLES


def leave_network() -> None:
    """Move this process and its future children into a network without interfaces.

    Root may do so directly, other users in a user namespace; if the kernel allows neither, the
    network remains available.
    """
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(CLONE_NEWNET) == 0 or _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def drop_capabilities() -> None:
    """Drop all capabilities permanently, those of root and those of a user namespace.

    Root keeps only the right to read files of other users.
    """
    for capability in range(MAX_CAPABILITIES):
        if capability != CAP_DAC_READ_SEARCH:
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    mask = 1 << CAP_DAC_READ_SEARCH if os.getuid() == 0 else 0
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    capabilities = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    _libc.capset(header, capabilities)


def adopt_orphans() -> None:
    """Become the parent of orphaned grandchildren."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def detach_from_parent(channel: int, parent: int) -> int:
    """Keep only one descriptor of the parent, and die with it; return its new number."""
    os.setpgid(0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    duplicate = os.dup(channel)
    for number, descriptor in enumerate((null, null, null, duplicate)):
        os.dup2(descriptor, number, inheritable=number < 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return 3


def confine_to_folder(folder: str) -> None:
    """Change to a folder, and allow writing there only; temporary files go there."""
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    landlock.restrict(folder)


def limit_resources(*, memory: int, file_size: int) -> None:
    """Limit memory (beyond the current use) and file size, in bytes; forbid core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    total = get_address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))


def grant_cpu(seconds: float) -> None:
    """Allow this much CPU time from now on; SIGXCPU kills a process that uses more."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(usage.ru_utime + usage.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def get_address_space() -> int:
    """Return the virtual memory of this process in bytes."""
    return _read_statm("self", 0)


def get_resident_memory(pid: int) -> int:
    """Return the physical memory of a process in bytes; 0 if it has exited."""
    with contextlib.suppress(OSError):
        return _read_statm(str(pid), 1)
    return 0


def _read_statm(process: str, field: int) -> int:
    numbers = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    return int(numbers[field]) * resource.getpagesize()
