"""Small helpers for the objects of a PDF."""

from __future__ import annotations

import copy
import zlib

import pikepdf


def compressed(pdf: pikepdf.Pdf, data: bytes) -> pikepdf.Stream:
    """Make a stream that is compressed already, so that saving can leave all streams alone."""
    return pikepdf.Stream(pdf, zlib.compress(data, 9), Filter=pikepdf.Name.FlateDecode)


def dictionary(holder: pikepdf.Object, key: str) -> pikepdf.Object:
    """Find a dictionary in another one; empty where there is none, or something else."""
    found = holder.get(key)
    return found if isinstance(found, pikepdf.Dictionary) else pikepdf.Dictionary()


def own(holder: pikepdf.Object, key: str) -> pikepdf.Object:
    """Give the holder its own copy of a dictionary that others may share, or an empty one."""
    holder[key] = copy.copy(dictionary(holder, key))
    return holder[key]
