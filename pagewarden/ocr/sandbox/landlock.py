"""Landlock rules: allow writing in one folder only; forbid TCP and signals to other processes.

Landlock is part of Linux since 5.13 and needs no privileges; each version can forbid more. The
constants are those of <linux/landlock.h>, which Python does not have.
"""

from __future__ import annotations

import ctypes
import os

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_GET_VERSION = 1
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
    _layout_ = "ms"  # the only layout with _pack_; without it, Python 3.14 warns
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock in this kernel; 0 or less without Landlock."""
    return int(_libc.syscall(_CREATE_RULESET, None, 0, _GET_VERSION))


def restrict(folder: str) -> None:
    """Forbid changes outside of a folder, as far as this kernel can."""
    supported = version()
    if supported < 1:
        return
    files = _WRITE_FILE | _CHANGE_FOLDERS
    files |= (_REFER if supported >= 2 else 0) | (_TRUNCATE if supported >= 3 else 0)
    ruleset = _Ruleset(
        files, _TCP if supported >= 4 else 0, _SOCKETS_AND_SIGNALS if supported >= 6 else 0
    )
    rules = _libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    if rules < 0:
        return
    try:
        _allow(rules, folder, files)
        _allow(rules, os.devnull, _WRITE_FILE)
        _libc.syscall(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access_rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(access_rights, parent)
        _libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
