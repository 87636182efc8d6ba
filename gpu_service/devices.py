"""What the networks of this service run on."""

from __future__ import annotations

import os

import structlog

from pagewarden import errors
from pagewarden.reading.lines import networks

log = structlog.get_logger(__name__)


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
