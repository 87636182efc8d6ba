"""A reader selector with a single reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagewarden import documents


@dataclass(frozen=True, slots=True)
class SingleReader:
    """Selects the same reader for every document."""

    reader: documents.DocumentReader

    async def select_reader(self, claim: documents.Claim) -> documents.DocumentReader:
        """Return the reader."""
        assert claim.lock_token
        return self.reader
