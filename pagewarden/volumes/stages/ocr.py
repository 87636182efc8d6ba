"""Third stage: lines are read."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden.reading.sandbox import duties
from pagewarden.volumes import crew
from pagewarden.volumes.artifacts import parquet, published, rows
from pagewarden.volumes.children import answers
from pagewarden.volumes.stages import models, runs, sandboxes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.volumes.stages import interface

_FETCHED = 16  # pictures of lines on their way from the bucket, for each page


class Ocr:
    """Makes ocr_results.parquet of a volume; all lines of a page go to the engine together."""

    name = "ocr"

    async def run(self, work: interface.Work) -> interface.Done:
        """Go through all pages that have lines."""
        began = time.perf_counter()
        await work.output.prepare()
        with work.output.scratch(work.token) as scratch:
            key = work.keys.line_images
            async with (
                published.opened(work.output, parquet.LINE_IMAGES, key, scratch) as lines,
                sandboxes.opened(work.config, _duty(work), reading=work.model is None) as sandbox,
            ):
                stamp = parquet.Stamp(
                    self.name,
                    lines.digest,
                    work.config.digest(self.name),
                    sandbox.version,
                    lines.stamp.pages,
                )
                table, key = parquet.OCR_RESULTS, work.keys.ocr_results
                run = runs.Run(work, table, key, stamp, scratch, began=began)
                if done := await run.repeated():
                    return done
                works = (self._page(work, sandbox, page) for page in _pages(lines))
                return await run.make(concurrency.map_in_order(works, ahead=sandbox.ahead))

    async def _page(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, lines: Sequence[rows.LineImage]
    ) -> runs.Made[rows.LineText]:
        name, trouble = lines[0].image_name, lines[0].trouble
        if trouble is None:
            try:
                return await self._read(work, sandbox, lines)
            except runs.PAGE_ERRORS as exc:
                trouble = runs.trouble_of(self.name, exc)
        return runs.failed(rows.LineText, name, trouble, sandbox.version)

    async def _read(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, lines: Sequence[rows.LineImage]
    ) -> runs.Made[rows.LineText]:
        name, named_by = lines[0].image_name, work.keys.line_images
        works = (published.fetch_image(work.output, line.image, named_by) for line in lines)
        pictures = [data async for data in concurrency.map_in_order(works, ahead=_FETCHED)]
        message = {"name": name, "sizes": [len(picture) for picture in pictures]}
        request = crew.Request(
            name,
            answers.TEXTS,
            lambda texts, files: len(texts) == len(lines) and not files,
            message,
            b"".join(pictures),
        )
        texts, _ = await sandbox.crew.do(request)
        made = [
            _row(line, text, work.config.encoding, sandbox.version)
            for line, text in zip(lines, texts, strict=True)
        ]
        counts = {"lines": len(made), "characters": sum(len(text.text) for text in texts)}
        return runs.Made(made, counts=counts)


def _duty(work: interface.Work) -> duties.Duty:
    options = {
        "languages": work.config.languages,
        "wylie": work.config.encoding == "wylie",
        **models.options(work.model),
    }
    return duties.Duty("pagewarden.volumes.children.recognition", "Recognition", options)


def _pages(lines: parquet.Reader[rows.LineImage]) -> Iterator[list[rows.LineImage]]:
    for _, of_page in itertools.groupby(lines, key=lambda line: line.image_name):
        yield list(of_page)


def _row(line: rows.LineImage, text: answers.Text, encoding: str, version: str) -> rows.LineText:
    return rows.LineText(
        image_name=line.image_name,
        line_index=line.line_index,
        line_guid=line.line_guid,
        text=text.text,
        encoding=encoding,
        confidence=text.confidence if text.text else None,
        model_version=version,
        words=[
            rows.WordInLine(text=spelt, left=left, right=right, confidence=sure)
            for spelt, left, right, sure in text.words
        ],
    )


STAGE = Ocr()
