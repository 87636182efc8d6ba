"""The engine that reads lines of many requests together, in the service that has it."""

from __future__ import annotations

import asyncio
import io

from PIL import Image

from tests.gpu_service import harness
from tests.reading import printed


def scan(lines: tuple[str, ...]) -> bytes:
    """Print a page, and save it as an image."""
    file = io.BytesIO()
    Image.fromarray(printed.page(lines).pixels).save(file, "PNG")
    return file.getvalue()


async def test_requests_at_a_time_share_batches_and_each_gets_its_own_text() -> None:
    """Four documents at once: each is read as it is printed, and the meters show the sharing."""
    texts = [printed.ENGLISH, printed.ENGLISH[::-1]] * 2
    async with harness.ready(
        engine="batched", test_line=True, max_bytes=10_000_000, processes=4
    ) as place:
        answers = await asyncio.gather(
            *(place.read(scan(text), languages="eng", name=f"{n}") for n, text in enumerate(texts))
        )
        for answer, text in zip(answers, texts, strict=True):
            document, page, _ = harness.lines(answer)
            assert document["document"]["engine"] == "batched"
            assert document["document"]["version"].endswith("in batches")
            assert [line["text"] for line in page["page"]["lines"]] == list(text)
        batches = await place.meter("pagewarden_gpu_batch_pages_count")
        of_one_page = await place.meter("pagewarden_gpu_batch_pages_bucket", le="1.0")
        assert 0 < of_one_page < batches
        assert await place.meter("pagewarden_gpu_batch_lines_sum") == 1 + 4 * len(printed.ENGLISH)
