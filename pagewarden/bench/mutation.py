"""Break a file in the ways files break, and in those in which somebody breaks them on purpose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MOST_CHANGES = 8
HEAD_BYTES = 64

_NUMBER = re.compile(rb"\d+")
_ODD_NUMBERS = (
    b"0", b"-1", b"1", b"65536", b"2147483647", b"2147483648", b"4294967295", b"99999999999999999",
)  # fmt: skip
_ODD_BYTES = (b"\x00", b"\x7f", b"\x80", b"\xff")


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change a file a few times; the same chance makes the same file."""
    for _ in range(chance.randint(1, MOST_CHANGES)):
        if data:
            data = chance.choice(_WAYS)(data, chance)
    return data


def _flip_bits(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 16)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _remove(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    return data[:start] + data[end:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    return data[:end] + data[start:end] * chance.randint(1, 4) + data[end:]


def _swap(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    place = chance.randrange(len(data))
    rest = data[:start] + data[end:]
    return rest[:place] + data[start:end] + rest[place:]


def _change_head(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(min(HEAD_BYTES, len(data)))
    odd = chance.choice(_ODD_BYTES) * chance.choice((1, 2, 4))
    return data[:place] + odd + data[place + len(odd) :]


def _change_number(data: bytes, chance: random.Random) -> bytes:
    """Change a number that is written in digits, as in a PDF."""
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return _change_head(data, chance)
    found = chance.choice(numbers)
    return data[: found.start()] + chance.choice(_ODD_NUMBERS) + data[found.end() :]


def _piece(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.choice((1, 4, 16, 256, 4096)))


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _change_head,
    _change_number,
    _flip_bits,
    _remove,
    _repeat,
    _swap,
    _truncate,
)
