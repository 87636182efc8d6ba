"""Artifacts of volumes: buckets, Parquet files, and how they are published."""

from __future__ import annotations

from pagewarden.volumes.artifacts.interface import Bucket, Entry
from pagewarden.volumes.artifacts.opening import open_bucket

__all__ = ["Bucket", "Entry", "open_bucket"]
