"""Keep this process from writing anywhere but in one folder, from signals and from the network.

Landlock is part of Linux since 5.13 and needs no rights; each version of it can forbid more.
Numbers are those of <linux/landlock.h>, which Python does not know.
"""

from __future__ import annotations

import ctypes
import os

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_GIVE_VERSION = 1
_PATH_BENEATH = 1

_WRITE_FILE = 1 << 1
_CHANGE_FOLDERS = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_TCP = 1 << 0 | 1 << 1
_SOCKETS_AND_SIGNALS = 1 << 0 | 1 << 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Say what the kernel can do; 0 or less where it knows nothing of it."""
    return int(_libc.syscall(_CREATE_RULESET, None, 0, _GIVE_VERSION))


def restrict(folder: str) -> None:
    """Allow changes below folder only, as far as this kernel can forbid the others."""
    known = version()
    if known < 1:
        return
    files = _WRITE_FILE | _CHANGE_FOLDERS
    files |= (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    wanted = _Ruleset(files, _TCP if known >= 4 else 0, _SOCKETS_AND_SIGNALS if known >= 6 else 0)
    rules = _libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.sizeof(wanted), 0)
    if rules < 0:
        return
    try:
        _allow(rules, folder, files)
        _allow(rules, os.devnull, _WRITE_FILE)
        _libc.syscall(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights, parent)
        _libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
