"""Files in a bucket: Amazon's S3, Supabase Storage, and others that speak like it."""

from __future__ import annotations

from pagewarden.files.s3.bucket import Bucket
from pagewarden.files.s3.store import S3Files

__all__ = ["Bucket", "S3Files"]
