"""What a page says about itself, for the menu and for who may open it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Audience(enum.StrEnum):
    """For whom a page is."""

    EVERYBODY = "everybody"
    ADMIN = "admin"


OPERATION = "Operation"
"""The group of what is needed when something is to be set up, or is wrong."""


@dataclass(frozen=True, slots=True)
class Page:
    """An entry of the menu, or of a group that opens there."""

    title: str
    path: str
    audience: Audience = Audience.EVERYBODY
    group: str = ""

    def is_for(self, *, admin: bool) -> bool:
        """Tell whether somebody sees it in the menu."""
        return admin or self.audience is Audience.EVERYBODY

    def has(self, path: str) -> bool:
        """Tell whether what is at this path belongs to it."""
        return path == self.path or path.startswith(f"{self.path}/")
