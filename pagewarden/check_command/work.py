"""Read the pictures side by side and check each; one that fails stops no other."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.checks import checking
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.checks import languages, report
    from pagewarden.ocr_command import inputs
    from pagewarden.reading import reader


@dataclass(frozen=True, slots=True)
class Order:
    """How all pictures are checked; without a language, that of the text is not."""

    language: languages.Language | None
    allowed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, and the strings that should be on it, if they are known."""

    item: inputs.Input
    expected: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a picture, or of one page of a file: a report, or why it could not be read."""

    image: str
    report: report.Report | None = None
    error: str | None = None


async def run(
    source: reader.Reader,
    pictures: Sequence[Picture],
    order: Order,
    advance: Callable[[], None],
) -> list[Result]:
    """Check all pictures, as many at a time as there are processes; results keep their order."""
    places = asyncio.Semaphore(source.processes)

    async def one(picture: Picture) -> list[Result]:
        async with places:
            found = await _check(source, picture, order)
        advance()
        return found

    async with source:
        tasks = [asyncio.create_task(one(picture)) for picture in pictures]
        try:
            return [result for task in tasks for result in await task]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _check(source: reader.Reader, picture: Picture, order: Order) -> list[Result]:
    name = picture.item.name
    try:
        found = await _read(source, picture.item, order.language)
    except errors.ReadingError as exc:
        return [Result(name, error=str(exc))]
    if len(found) == 1:
        return [await _judge(name, found[0], picture, order)]
    if picture.expected is not None:
        why = f"{name}: it has {len(found)} pages, so it is unclear where the strings should be."
        return [Result(name, error=f"{why} Check its pages one by one.")]
    return [await _judge(f"{name}, page {page.number}", page, picture, order) for page in found]


async def _read(
    source: reader.Reader, item: inputs.Input, language: languages.Language | None
) -> list[pages.ReadPage]:
    known = (language.reading,) if language else ()
    reading = source.read(item.path, name=item.name, languages=known)
    async with contextlib.aclosing(reading) as found:
        return [page async for page in found]


async def _judge(name: str, page: pages.ReadPage, picture: Picture, order: Order) -> Result:
    if page.source is pages.Source.FAILED:
        return Result(name, error=page.error)
    report = await asyncio.to_thread(
        checking.check, page, picture.expected, order.language, order.allowed
    )
    return Result(name, report)
