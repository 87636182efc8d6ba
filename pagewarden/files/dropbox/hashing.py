"""The hash by which Dropbox knows a content: that of the hashes of its pieces of 4 MiB."""

from __future__ import annotations

import hashlib

_PIECE = 4 * 1024 * 1024


class ContentHash:
    """A hash that grows, like those of hashlib."""

    def __init__(self, data: bytes = b"") -> None:
        self._whole = hashlib.sha256()
        self._piece = hashlib.sha256()
        self._room = _PIECE
        self.update(data)

    def update(self, data: bytes) -> None:
        """Add what comes next."""
        rest = memoryview(data)
        while rest:
            taken, rest = rest[: self._room], rest[self._room :]
            self._piece.update(taken)
            self._room -= len(taken)
            if not self._room:
                self._whole.update(self._piece.digest())
                self._piece, self._room = hashlib.sha256(), _PIECE

    def hexdigest(self) -> str:
        """Give the hash of all so far."""
        whole = self._whole.copy()
        if self._room < _PIECE:
            whole.update(self._piece.digest())
        return whole.hexdigest()
