"""The text of the stages beside that of the one-pass reader, collection by collection."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from pagewarden.bench.ocr import scoring
from pagewarden.bench.volumes import volumes
from pagewarden.reading import reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.bench.ocr import corpus


def table(pages: Sequence[corpus.Page]) -> Table:
    """Read every collection both ways, told its language."""
    made = Table("collection", "pages", "CER, one pass", "stages", "difference in points")
    every: tuple[list[scoring.Score], list[scoring.Score]] = ([], [])
    for name, group in volumes.by_collection(pages):
        both = asyncio.run(once(group, group[0].language)), _in_stages(group)
        scores = [
            [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
            for texts in both
        ]
        for all_of_them, these in zip(every, scores, strict=True):
            all_of_them.extend(these)
        made.add_row(name, str(len(group)), *_cells(*scores))
    made.add_section()
    made.add_row("all", str(len(pages)), *_cells(*every))
    return made


async def once(pages: Sequence[corpus.Page], language: str = "") -> list[str]:
    """Read pages by the one-pass reader."""
    languages = [language] if language else []
    async with reader.Reader() as reading:

        async def read(page: corpus.Page) -> str:
            async with aclosing(reading.read(page.path, languages=languages)) as found:
                return "\n".join([each.text async for each in found])

        return await asyncio.gather(*(read(page) for page in pages))


def _in_stages(pages: Sequence[corpus.Page]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = volumes.bind(Path(folder), pages, language=pages[0].language)
        for _ in volume.run(volumes.READ):
            pass
        return volume.texts()


def _cells(one: Sequence[scoring.Score], other: Sequence[scoring.Score]) -> list[str]:
    first, second = scoring.total(one).cer, scoring.total(other).cer
    return [f"{first:.2%}", f"{second:.2%}", f"{100 * (second - first):+.2f}"]
