"""The life of a document: upload, claim, attempt, corrections, export, archive, retention.

Begin with `worker.Worker`, which claims documents and runs an `Attempt` at each, under the lease of
`lease`. The readers are in `reader` and `gpu_reader`, what differs between lanes in `lanes`. OCR
itself is in `pagewarden.ocr`, the queue in `supabase/migrations`.
"""

from __future__ import annotations

from pagewarden.documents.attempt import Attempt
from pagewarden.documents.claim import (
    Claim,
    DocumentReader,
    Outcome,
    Page,
    ReaderSelector,
    ReadingRun,
)
from pagewarden.documents.worker import Worker

__all__ = [
    "Attempt",
    "Claim",
    "DocumentReader",
    "Outcome",
    "Page",
    "ReaderSelector",
    "ReadingRun",
    "Worker",
]
