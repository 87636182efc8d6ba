"""How the documents of a lane are read: within which limits, and with how much patience."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.reading import limits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pagewarden.documents import claims
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

CHECK = "check"
CHECK_PAUSES = (1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Manners:
    """What of a document is read.

    pauses are the seconds before each further try at what failed in passing. Where it is strict, a
    page that cannot be read is the failure of its document.
    """

    limits: limits.Limits = dataclasses.field(default_factory=limits.Limits)
    strict: bool = False
    pauses: Sequence[float] = ()

    async def patiently(
        self, read: Callable[[frozenset[int]], AsyncGenerator[claims.Page]]
    ) -> AsyncGenerator[claims.Page]:
        """Read, and read again what failed in passing; read is told which pages are known."""
        known: frozenset[int] = frozenset()
        for pause in (*self.pauses, None):
            try:
                async with contextlib.aclosing(read(known)) as found:
                    async for page in found:
                        yield page
                        known |= {page.number}
            except (errors.ReadingError, errors.EngineError) as exc:
                if pause is None or exc.category is not errors.Category.TRANSIENT:
                    raise
                log.warning("read_again_soon", seconds=pause, error=str(exc))
                await asyncio.sleep(pause)
            else:
                return


USUAL = Manners()
NONE: Mapping[str, Manners] = MappingProxyType({})


def of_lanes(settings: Settings) -> Mapping[str, Manners]:
    """Say which lanes are read in a manner of their own."""
    checks = limits.Limits(
        file_bytes=settings.check_max_image_bytes,
        pages=1,
        pixels=settings.check_max_pixels,
        page_seconds=settings.check_read_seconds,
    )
    return {CHECK: Manners(checks, strict=True, pauses=CHECK_PAUSES)}
