"""What a page says about itself, for the menu and for who may open it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Audience(enum.StrEnum):
    """For whom a page is."""

    EVERYBODY = "everybody"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Page:
    """An entry of the menu."""

    title: str
    path: str
    audience: Audience = Audience.EVERYBODY

    def is_for(self, *, admin: bool) -> bool:
        """Tell whether somebody sees it in the menu."""
        return admin or self.audience is Audience.EVERYBODY
