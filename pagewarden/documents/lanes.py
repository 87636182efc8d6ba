"""LanePolicy: limits, retries, strictness and completion of each lane.

Other lanes have DEFAULT_POLICY: the engine's limits, no retries within an attempt, and failed pages
do not fail their document.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors, retry
from pagewarden.checks.rules import check, languages
from pagewarden.database.retry import retry_until_available
from pagewarden.documents import pages
from pagewarden.documents.claim import require_lock
from pagewarden.ocr.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.checks.rules import result
    from pagewarden.database import Database, rows
    from pagewarden.documents.claim import Claim, ReadingRun
    from pagewarden.ocr.pages import ReadPage
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

CHECK = "check"
PDF = "pdf"
# These lanes have images and PDFs; the local reader detects the type by content.
REGISTRY = ("index", "acte")
# The lanes of a worker by default, in order of preference.
LANES = ("image", CHECK, PDF, *REGISTRY)
LOCAL_LANES = tuple(lane for lane in LANES if lane != PDF)

CHECK_PAUSES = (1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class ReadingResult:
    """Result of reading a document, for the call that completes it.

    page_count is the number of pages known to the worker; after a failover the database may know
    fewer. started_at is a value of time.monotonic().
    """

    run: ReadingRun
    saved_pages: int
    page_count: int
    confidences: Sequence[float]
    started_at: float

    def as_params(self) -> dict[str, Any]:
        """Return the common parameters of all completing calls."""
        seconds = time.monotonic() - self.started_at
        mean = sum(self.confidences) / len(self.confidences) if self.confidences else None
        return {
            "confidence": mean,
            "processing_time_ms": round(seconds * 1000),
            "engine": self.run.engine,
            "version": self.run.version,
            "profile": self.run.profile,
            "page_count": self.page_count or None,
        }


Completer = Callable[["Database", "Claim", ReadingResult], Awaitable[Mapping[str, Any]]]
"""Completes a document after reading, and returns the database's answer."""


async def complete_document(
    database: Database, claim: Claim, result: ReadingResult
) -> Mapping[str, Any]:
    """Complete a document whose pages are its result."""
    return await retry_until_available(
        database.process_ocr_atomic,
        document_id=claim.id,
        lock_token=claim.lock_token,
        ocr_data={"pages_read": result.saved_pages},
        **result.as_params(),
    )


async def complete_check(
    database: Database, claim: Claim, result: ReadingResult
) -> Mapping[str, Any]:
    """Check the text of an image of a check job, and complete the document with the results."""
    task = await retry_until_available(
        database.get_check, document_id=claim.id, lock_token=claim.lock_token
    )
    require_lock(task)
    if not task["images"]:
        return await complete_document(database, claim, result)
    results = await check_image(task)
    return await retry_until_available(
        database.complete_check,
        document_id=claim.id,
        lock_token=claim.lock_token,
        results=results,
        **result.as_params(),
    )


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """How the documents of a lane are read.

    pauses are the seconds before each retry after a transient error; a longer wait that a service
    requests replaces them. In a strict lane, an unreadable page fails its document.
    """

    limits: Limits = dataclasses.field(default_factory=Limits)
    strict: bool = False
    pauses: Sequence[float] = ()
    complete: Completer = complete_document

    def attempts(self) -> retry.Attempts:
        """Return the attempts at reading a document."""
        policy = retry.RetryPolicy(self.pauses, is_transient=_is_transient)
        return policy.attempts(on_retry=_log_retry)


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, (errors.ReadingError, errors.EngineError)):
        return False
    return error.category is errors.Category.TRANSIENT


def _log_retry(error: BaseException, seconds: float) -> None:
    log.warning("reading_retry_scheduled", seconds=round(seconds, 3), error=str(error))


DEFAULT_POLICY = LanePolicy()
POLICIES: Mapping[str, LanePolicy] = MappingProxyType(
    {CHECK: LanePolicy(strict=True, pauses=CHECK_PAUSES, complete=complete_check)}
)


def find_completer(lane: str) -> Completer:
    """Return the completer of a lane."""
    return POLICIES.get(lane, DEFAULT_POLICY).complete


def policies_from_settings(settings: Settings) -> Mapping[str, LanePolicy]:
    """Return the policies of all lanes that have one, with the configured limits."""
    check_limits = Limits(
        file_bytes=settings.check_max_image_bytes,
        pages=1,
        pixels=settings.check_max_pixels,
        page_seconds=settings.check_read_seconds,
    )
    return {**POLICIES, CHECK: dataclasses.replace(POLICIES[CHECK], limits=check_limits)}


async def check_image(task: rows.GetCheckAnswer) -> list[dict[str, Any]]:
    """Check an image under each of its names, and return the results; task is from get_check."""
    found = task["pages"]
    if not found:
        raise errors.ReadingError(
            "the page of the picture is missing; the picture will be read again"
        )
    if len(found) != 1:
        raise errors.UnsupportedFile(
            f"the picture has {len(found)} pages; send each as a separate picture"
        )
    page = pages.parse_row(found[0])
    # In a thread: the first line with an uncertain language loads models, which takes seconds.
    return await asyncio.to_thread(_check_page, page, task)


def _check_page(page: ReadPage, task: rows.GetCheckAnswer) -> list[dict[str, Any]]:
    language = languages.find_language(task["language"]) if task["language"] else None
    allowed = task["allowed"] or []
    return [
        _make_result_row(
            image["position"], page, check.check(page, image["reference"], language, allowed)
        )
        for image in task["images"] or []
    ]


def _make_result_row(
    position: int, page: ReadPage, check_result: result.CheckResult
) -> dict[str, Any]:
    content = check_result.as_json()
    return {
        "position": position,
        "verdict": content["verdict"],
        "match": content["match"],
        "extracted_text": content["extractedText"],
        "issues": content["issues"],
        "strings": content["strings"],
        "width": page.width,
        "height": page.height,
    }
