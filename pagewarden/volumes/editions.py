"""Which edition of a volume is looked at, and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.volumes import layout


def asked(config: Mapping[str, Any]) -> set[str]:
    """Name the kinds of files that the last stage of a job with this config makes."""
    combined = {"combined"} if config.get("reducer") == "combine" else set()
    return {*config.get("exports", ()), *combined}


@dataclass(frozen=True, slots=True)
class Edition:
    """What is published of a volume; version changes whenever that may have changed.

    combined: the texts that count are those that the reducer 'combine' has made.
    """

    keys: layout.Volume
    version: str
    combined: bool = False
