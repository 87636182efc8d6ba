"""Pagewarden, an OCR system on Postgres: product name and version, as used in exports."""

from importlib import metadata

PRODUCT = "Pagewarden"
__version__ = metadata.version("pagewarden")
SOFTWARE = f"{PRODUCT} {__version__}"
