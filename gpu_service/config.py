"""How a service is set up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog

from pagewarden import errors, keys, settings
from pagewarden.reading import engines
from pagewarden.reading.lines import networks

log = structlog.get_logger(__name__)

BATCHED = "batched"
"""The engine that only this service has."""
AMAZONS_REGION = "us-east-1"
"""The one of a bucket that names none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a service needs to know.

    documents are read at a time, waiting more may wait. stores are beginnings of the URLs that it
    fetches. test_line says whether the engine must prove that it reads before it is ready; those
    that read nothing cannot. processes are those that open files; None leaves it to the reader.
    """

    key: str = field(repr=False)
    engine: str = engines.DEFAULT
    profile: str = engines.BALANCED
    documents: int = settings.GPU_DOCUMENTS
    waiting: int = settings.GPU_WAITING
    retry_after: int = 2
    processes: int | None = None
    max_bytes: int = settings.UPLOAD_MAX_BYTES
    stores: tuple[str, ...] = ()
    test_line: bool = True


def of_settings(
    chosen: settings.Settings, *, engine: str | None = None, processes: int | None = None
) -> Plan:
    """Do as the settings say; what is given goes before."""
    named = engine or chosen.gpu_engine or usual_engine()
    return Plan(
        key=keys.secret_key(chosen),
        engine=named,
        documents=chosen.gpu_documents,
        waiting=chosen.gpu_waiting,
        processes=processes,
        max_bytes=chosen.upload_max_bytes,
        stores=tuple(_stores(chosen)),
        test_line=named == BATCHED or engines.find(named).module != engines.find("null").module,
    )


def _stores(chosen: settings.Settings) -> Iterator[str]:
    """Tell how signed URLs of our files begin; those of a Dropbox can be anywhere."""
    if chosen.files_public_url is not None:
        yield str(chosen.files_public_url)
    place = urlsplit(chosen.files or "")
    bucket = place.netloc if place.scheme == "s3" else ""
    if chosen.s3_endpoint is not None:
        yield f"{str(chosen.s3_endpoint).rstrip('/')}/{bucket}"
    elif bucket:
        yield f"https://s3.{chosen.s3_region or AMAZONS_REGION}.amazonaws.com/{bucket}"


def usual_engine() -> str:
    """Batch lines where there is CUDA; on a CPU the cascade is quicker, see decision 6."""
    return BATCHED if best().provider == networks.CUDA else engines.DEFAULT


def best() -> networks.Device:
    """Choose the first GPU, if it works, and all cores otherwise."""
    cores = os.cpu_count() or 1
    if networks.CUDA in networks.available():
        gpu = networks.Device(networks.CUDA, cores)
        try:
            networks.detector(gpu)
        except errors.EngineMissing as exc:
            log.warning("no_gpu", reason=str(exc))
        else:
            return gpu
    return networks.Device(networks.CPU, cores)
