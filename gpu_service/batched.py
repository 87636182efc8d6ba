"""The engine 'batched': PP-OCR as the engine 'rapid' has it, lines of all pages read together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_service import devices, plans, together
from pagewarden.reading import rapid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.reading.lines import crops, readings, recognition


class Batched(rapid.Rapid):
    """Finds the lines of each page by itself, and has them read with those of others."""

    name = plans.BATCHED

    def __init__(self, noted: Callable[[int, int], None]) -> None:
        super().__init__(devices.best())
        self._together = together.Together(noted)

    @property
    def version(self) -> str:
        """Name the version of package and models; what is added to lines counts too."""
        return f"{super().version}, in batches"

    @property
    def alive(self) -> bool:
        """Tell whether anybody reads."""
        return self._together.alive

    def read(
        self, lines: Sequence[crops.Crop], chosen: recognition.Recogniser
    ) -> list[readings.Reading]:
        """Read them with the lines of other pages."""
        return self._together.read(chosen, lines)

    def close(self) -> None:
        """End the thread."""
        self._together.close()
