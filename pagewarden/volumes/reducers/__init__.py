"""Reducers: what is made of a whole volume once it is read.

A reducer is given the volume and says what came of it: figures, and the text that counts.
"""

from __future__ import annotations

from pagewarden.volumes.reducers.interface import Given, Reduced, Reducer, find

__all__ = ["Given", "Reduced", "Reducer", "find"]
