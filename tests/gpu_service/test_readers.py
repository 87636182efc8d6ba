"""The engine `batched`: lines of many requests share batches."""

from __future__ import annotations

import asyncio
import io

from PIL import Image

from tests.gpu_service import harness
from tests.ocr import printed


def scan(lines: tuple[str, ...]) -> bytes:
    """Print a page, and save it as an image."""
    file = io.BytesIO()
    Image.fromarray(printed.page(lines).pixels).save(file, "PNG")
    return file.getvalue()


async def test_concurrent_requests_share_batches_and_get_their_own_text() -> None:
    """Each of four documents gets its text; the metrics show shared batches."""
    texts = [printed.ENGLISH, printed.ENGLISH[::-1]] * 2
    async with harness.start_ready_service(
        engine="batched", check_test_line=True, max_bytes=10_000_000, processes=4
    ) as service:
        answers = await asyncio.gather(
            *(
                service.read(scan(text), languages="eng", name=f"{n}")
                for n, text in enumerate(texts)
            )
        )
        for answer, text in zip(answers, texts, strict=True):
            document, page, _ = harness.parse_lines(answer)
            assert document["document"]["engine"] == "batched"
            assert document["document"]["version"].endswith("in batches")
            assert [line["text"] for line in page["page"]["lines"]] == list(text)
        batches = await service.metric("pagewarden_gpu_batch_pages_count")
        single_page = await service.metric("pagewarden_gpu_batch_pages_bucket", le="1.0")
        assert 0 < single_page < batches
        assert await service.metric("pagewarden_gpu_batch_lines_sum") == 1 + 4 * len(
            printed.ENGLISH
        )
