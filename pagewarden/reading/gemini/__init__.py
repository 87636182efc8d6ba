"""Read pages with Google's Gemini: extract the lines, then boost their text.

Only pixels that were decoded in the sandbox get here; nothing foreign is parsed but the
service's own answers.
"""

from __future__ import annotations

from pagewarden.reading.gemini.engine import Gemini
from pagewarden.reading.gemini.service import Options

__all__ = ["Gemini", "Options"]
