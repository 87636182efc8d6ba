"""Every error Pagewarden raises, and what it means for the document at hand.

PagewardenError
├── SettingsError          a setting is missing, unknown or unsafe
├── DatabaseError          the database refused a call
│   ├── InvalidCall        an argument makes no sense (SQLSTATE 22xxx, 23xxx)
│   ├── Forbidden          the caller may not do this (42501)
│   ├── Conflict           somebody changed the same thing at the same time (40001, 40P01, 55P03)
│   └── DatabaseAway       the database cannot be reached; an outage, not a failure
├── LocalStackError        the embedded server cannot be set up or started
└── LockLost               the document was taken away from this worker

Each class states its category (how a dead letter is filed), whether trying again may help,
and whether it is an outage: then the document is given back without counting an attempt.
Messages say what to do next.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Category(enum.StrEnum):
    """How a failure is filed in the dead letters."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    RESOURCE = "resource"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"


class PagewardenError(Exception):
    """Base of every error of ours."""

    category: ClassVar[Category] = Category.UNKNOWN
    retryable: ClassVar[bool] = False
    outage: ClassVar[bool] = False


class SettingsError(PagewardenError):
    """A setting is missing, unknown or unsafe."""

    category = Category.CONFIGURATION


class DatabaseError(PagewardenError):
    """The database refused a call.

    sqlstate is the five-letter code of Postgres, hint what Postgres says can be done.
    """

    def __init__(
        self, message: str, *, sqlstate: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.sqlstate = sqlstate
        self.hint = hint


class InvalidCall(DatabaseError):
    """An argument makes no sense; nothing was changed."""

    category = Category.PERMANENT


class Forbidden(DatabaseError):
    """The caller may not do this; nothing was changed."""

    category = Category.CONFIGURATION


class Conflict(DatabaseError):
    """Somebody changed the same thing at the same time; trying again helps."""

    category = Category.TRANSIENT
    retryable = True


class DatabaseAway(DatabaseError):
    """The database cannot be reached; nothing is known of the call that was under way."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class LocalStackError(PagewardenError):
    """The embedded server cannot be set up or started."""

    category = Category.CONFIGURATION


class LockLost(PagewardenError):
    """The document was taken away from this worker; whatever it read is void."""

    category = Category.TRANSIENT
