"""How children and host hand over pages: facts as JSON, and beside them the files they are about.

The host believes nothing: what does not fit is as if the child had died.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pagewarden.reading.sandbox import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pydantic

T = TypeVar("T")

MAX_BYTES = 256 << 20


def pack(
    kind: pydantic.TypeAdapter[T], facts: T, files: Sequence[bytes] = ()
) -> tuple[wire.Message, bytes]:
    """Give them the form they travel in."""
    parts = [kind.dump_json(facts), *files]
    return {"sizes": [len(part) for part in parts]}, b"".join(parts)


def unpack(
    kind: pydantic.TypeAdapter[T], message: wire.Message, blob: bytes
) -> tuple[T, list[bytes]]:
    """Take them apart again."""
    facts, *files = cut(message.get("sizes"), blob)
    try:
        return kind.validate_json(facts), files
    except ValueError as exc:
        raise wire.Broken("facts that are none") from exc


def cut(sizes: object, blob: bytes) -> list[bytes]:
    """Cut bytes into pieces of these sizes."""
    if not isinstance(sizes, list) or not sizes:
        raise wire.Broken("no sizes")
    if not all(isinstance(size, int) and size >= 0 for size in sizes) or sum(sizes) != len(blob):
        raise wire.Broken("sizes that do not fit")
    parts, start = [], 0
    for size in sizes:
        parts.append(blob[start : start + size])
        start += size
    return parts
