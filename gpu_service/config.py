"""Configuration of the service: from the settings and the hardware (CPU or CUDA)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import structlog

from pagewarden import errors
from pagewarden.auth import keys
from pagewarden.ocr import engines
from pagewarden.ocr.lines import ppocr_models
from pagewarden.settings import GPU_DOCUMENTS, GPU_WAITING, UPLOAD_MAX_BYTES, Settings

log = structlog.get_logger(__name__)

BATCHED = "batched"
"""The engine that only this service provides."""
DEFAULT_S3_REGION = "us-east-1"
"""Region of buckets whose settings do not specify one."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """Configuration of one service.

    `documents` are read at a time, `waiting` more may wait for a slot. `store_urls` are the
    prefixes of the URLs that the service may fetch. With `check_test_line` the engine must read
    the test line correctly before the service is ready; engines without OCR cannot. `processes`
    open documents; None leaves their number to the reader.
    """

    key: str = field(repr=False)
    engine: str = engines.DEFAULT
    profile: str = engines.BALANCED
    documents: int = GPU_DOCUMENTS
    waiting: int = GPU_WAITING
    retry_after: int = 2
    processes: int | None = None
    max_bytes: int = UPLOAD_MAX_BYTES
    store_urls: tuple[str, ...] = ()
    check_test_line: bool = True

    @classmethod
    def from_settings(
        cls, settings: Settings, *, engine: str | None = None, processes: int | None = None
    ) -> Self:
        """Build the configuration; arguments take precedence over settings."""
        name = engine or settings.gpu_engine or default_engine()
        return cls(
            key=keys.load_secret_key(settings),
            engine=name,
            documents=settings.gpu_documents,
            waiting=settings.gpu_waiting,
            processes=processes,
            max_bytes=settings.upload_max_bytes,
            store_urls=tuple(_list_store_urls(settings)),
            check_test_line=name == BATCHED
            or engines.find_engine(name).module != engines.find_engine("null").module,
        )


def default_engine() -> str:
    """Batch lines on CUDA; on a CPU the cascade is faster, see decision 6."""
    return BATCHED if choose_device().provider == ppocr_models.CUDA else engines.DEFAULT


def choose_device() -> ppocr_models.Device:
    """Choose the first GPU if it works, otherwise all CPU cores."""
    cores = os.cpu_count() or 1
    if ppocr_models.CUDA in ppocr_models.list_providers():
        gpu = ppocr_models.Device(ppocr_models.CUDA, cores)
        try:
            ppocr_models.load_detector(gpu)
        except errors.EngineNotInstalled as exc:
            log.warning("gpu_unavailable", reason=str(exc))
        else:
            return gpu
    return ppocr_models.Device(ppocr_models.CPU, cores)


def _list_store_urls(settings: Settings) -> Iterator[str]:
    """List the prefixes of signed URLs of the file store; Dropbox has no fixed one."""
    if settings.files_public_url is not None:
        yield str(settings.files_public_url)
    files = urlsplit(settings.files or "")
    bucket = files.netloc if files.scheme == "s3" else ""
    if settings.s3_endpoint is not None:
        yield f"{str(settings.s3_endpoint).rstrip('/')}/{bucket}"
    elif bucket:
        yield f"https://s3.{settings.s3_region or DEFAULT_S3_REGION}.amazonaws.com/{bucket}"
