"""Which edition of a volume is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagewarden.volumes import layout


@dataclass(frozen=True, slots=True)
class Edition:
    """What is published of a volume; version changes whenever that may have changed.

    combined: the texts that count are those that the reducer 'combine' has made.
    """

    keys: layout.Volume
    version: str
    combined: bool = False
