"""Which function reads a document: `ocr-universal` an image, `pdf-extract` a PDF."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.documents import lanes
from pagewarden.ocr import file_types
from pagewarden.storage import base

if TYPE_CHECKING:
    from pagewarden.documents.claim import Claim
    from pagewarden.storage import FileStore

OCR_UNIVERSAL = "ocr-universal"
PDF_EXTRACT = "pdf-extract"

_PDF_TYPE = "application/pdf"


async def find_function(claim: Claim, store: FileStore) -> str:
    """Return the function for a document, by its lane; in the registry, by its file."""
    if claim.lane in lanes.REGISTRY:
        is_pdf = await _is_pdf(claim, store)
    else:
        is_pdf = claim.lane == lanes.PDF
    return PDF_EXTRACT if is_pdf else OCR_UNIVERSAL


async def _is_pdf(claim: Claim, store: FileStore) -> bool:
    """Tell by type, else by content, else by name, whether a document is a PDF."""
    if claim.mime_type is not None:
        return claim.mime_type == _PDF_TYPE
    # The reader reports a file that cannot be fetched, as a failure or an outage.
    with contextlib.suppress(errors.FileStoreError):
        head = await base.read_head(store, claim.store_path, file_types.HEAD_BYTES)
        return file_types.detect(head) == "pdf"
    return claim.name.lower().endswith(".pdf")
