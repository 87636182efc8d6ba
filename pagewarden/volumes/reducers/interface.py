"""What a reducer is, what it is given, and what it gives."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pagewarden.volumes import contents, layout
    from pagewarden.volumes.artifacts import parquet, rows


@dataclass(frozen=True, slots=True)
class Given:
    """A volume, further texts of the same lines, and a folder for what is to be published."""

    volume: contents.Volume
    others: Sequence[parquet.Reader[rows.LineText]]
    keys: layout.Volume
    scratch: Path


@dataclass(frozen=True, slots=True)
class Reduced:
    """What came of a volume: figures, files by the keys they are to have, and its texts.

    texts can be gone through as often as needed; None stands for those of the volume itself.
    """

    metrics: Mapping[str, float | int | str]
    files: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    texts: Iterable[rows.LineText] | None = None


class Reducer(Protocol):
    """Makes something of a whole volume."""

    def reduce(self, given: Given) -> Reduced:
        """Do it; raises an error of pagewarden.errors."""
        ...


def find(name: str) -> Reducer:
    """Find a reducer by the name that configs have for it."""
    reducer: Reducer = importlib.import_module(f"pagewarden.volumes.reducers.{name}").REDUCER
    return reducer
