"""Files of this computer on their way out, a piece at a time."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.files import settling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An open file with the bytes it had when it was opened; what is added is for next time."""

    path: Path
    file: BinaryIO
    size: int

    async def chunks(self, sent: Callable[[int], None]) -> AsyncIterator[bytes]:
        """Read it from the beginning; sent is told how many bytes were taken."""
        self.file.seek(0)
        position = 0
        sent(position)
        while position < self.size:
            with translated(self.path):
                wanted = min(CHUNK_BYTES, self.size - position)
                chunk = await settling.in_thread(self.file.read, wanted)
            if not chunk:
                raise errors.LocalFileError(
                    f"{self.path} became shorter while it was sent; send it when it is finished"
                )
            yield chunk
            position += len(chunk)
            sent(position)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Outgoing]:
    """Open a file that is to be sent."""
    with translated(path):
        file = path.open("rb")
    with file:
        yield Outgoing(path, file, os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise an error of ours for what the system says of a file."""
    try:
        yield
    except OSError as exc:
        raise errors.LocalFileError(f"{path} cannot be used ({exc.strerror or exc})") from exc
