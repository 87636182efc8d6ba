"""Every error Pagewarden raises, and what it means for the document at hand.

PagewardenError
├── SettingsError          a setting is missing, unknown or unsafe
├── DatabaseError          the database refused a call
│   ├── InvalidCall        an argument makes no sense (SQLSTATE 22xxx, 23xxx)
│   ├── Forbidden          the caller may not do this (42501)
│   ├── Conflict           somebody changed the same thing at the same time (40001, 40P01, 55P03)
│   └── DatabaseAway       the database cannot be reached; an outage, not a failure
├── LocalStackError        the embedded server cannot be set up or started
├── ReadingError           a document or a page of it could not be read
│   ├── UnreadableFile     it will never be read as it is
│   │   ├── EmptyFile      there is nothing in it
│   │   ├── UnsupportedFile  it is of a type we do not read
│   │   ├── EncryptedFile  it wants a password
│   │   └── DamagedFile    it, or a page of it, is broken
│   ├── LimitExceeded      it would take more than it is allowed to
│   │   ├── TooLarge       bytes, pages or pixels
│   │   ├── OutOfMemory    the memory of the sandbox was not enough
│   │   └── ReaderKilled   the process that parsed it died
│   └── ReadingTimedOut    it took longer than it may
├── EngineError            the engine, not the file, is the trouble
│   ├── EngineMissing      not installed, or its language data is not
│   ├── KeyRefused         the service wants another key
│   ├── EngineAway         the service cannot be reached; an outage
│   ├── RateLimited        the service wants us to wait
│   ├── AnswerRefused      the service will not read this page
│   └── AnswerUnusable     the service answered with something else than text
├── SignInError            somebody is not let in
│   ├── NotSignedIn        there is no token, or it does not count
│   ├── SignInRefused      what was asked of the sign-in is not done
│   └── SignInAway         what tokens are checked with cannot be fetched; an outage
├── FileStoreError         where files are kept, there is trouble
│   ├── FileNotThere       there is no such file
│   ├── FileAccessDenied   the store can be used, but does not hand out this file
│   ├── FileExists         there is one already, and files are never overwritten
│   ├── FileTooLarge       it has more bytes than are allowed
│   ├── UnsafePath         a path that could lead out of the store, or is unfit for one
│   ├── StoreAway          the store cannot be reached; an outage
│   ├── StoreFull          there is no room left; an outage
│   ├── StoreKeyRefused    the store wants another key; an outage
│   └── StoreUnusable      there is no such folder or bucket, or it may not be used; an outage
├── QueueError             the queues of volumes are the trouble
│   ├── QueueAway          they cannot be reached; an outage
│   └── QueueUnusable      there is no such queue, or it may not be used; an outage
├── ServerError            a Pagewarden server was asked, and it was not done
│   ├── ServerAway         it cannot be reached, or wants us to wait; an outage
│   └── CallRefused        it said no
├── ArtifactUnusable       what a stage published is cut short, or does not fit together
├── LocalFileError         a file of this computer cannot be used, or changed meanwhile
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


class ReadingError(PagewardenError):
    """A document or a page of it could not be read."""


class UnreadableFile(ReadingError):
    """Whatever is done, it will not be read as it is."""

    category = Category.PERMANENT


class EmptyFile(UnreadableFile):
    """There is nothing in it."""


class UnsupportedFile(UnreadableFile):
    """It is of a type we do not read."""


class EncryptedFile(UnreadableFile):
    """It wants a password."""


class DamagedFile(UnreadableFile):
    """It, or a page of it, is broken."""


class LimitExceeded(ReadingError):
    """It would take more than it is allowed to."""

    category = Category.RESOURCE


class TooLarge(LimitExceeded):
    """Too many bytes, pages or pixels; they stay as many, however often one tries."""

    category = Category.PERMANENT


class OutOfMemory(LimitExceeded):
    """The memory of the sandbox was not enough."""


class ReaderKilled(LimitExceeded):
    """The process that parsed it died."""


class ReadingTimedOut(ReadingError):
    """It took longer than it may; on a calmer machine it may not."""

    category = Category.TRANSIENT
    retryable = True


class EngineError(PagewardenError):
    """The engine, not the file, is the trouble."""


class EngineMissing(EngineError):
    """The engine is not installed, or its language data is not."""

    category = Category.CONFIGURATION


class KeyRefused(EngineError):
    """The service wants another key."""

    category = Category.CONFIGURATION


class EngineAway(EngineError):
    """The service cannot be reached, or is broken itself."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class RateLimited(EngineError):
    """The service wants us to wait; retry_after is in seconds, where it said so."""

    category = Category.TRANSIENT
    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AnswerRefused(EngineError):
    """The service will not read this page, however often it is asked."""

    category = Category.PERMANENT


class AnswerUnusable(EngineError):
    """The service answered with something else than the text: broken off, or not as agreed."""

    category = Category.TRANSIENT
    retryable = True


class SignInError(PagewardenError):
    """Somebody is not let in."""


class NotSignedIn(SignInError):
    """There is no token, or it does not count: expired, forged, or not meant for us."""

    category = Category.CONFIGURATION


class SignInRefused(SignInError):
    """What was asked of the sign-in is not done.

    status and code are those of Supabase Auth, which its clients know; retry_after is in
    seconds; reasons say what is weak about a password.
    """

    category = Category.PERMANENT

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        retry_after: int | None = None,
        reasons: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.reasons = reasons


class SignInAway(SignInError):
    """What tokens are checked with cannot be fetched; nothing is known of the caller."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class FileStoreError(PagewardenError):
    """Where files are kept, there is trouble."""


class FileNotThere(FileStoreError):
    """There is no such file, yet: some come a little later than their documents."""

    category = Category.TRANSIENT


class FileAccessDenied(FileStoreError):
    """The store can be used, but does not hand out this file: its mode, or it is archived."""

    category = Category.CONFIGURATION


class FileExists(FileStoreError):
    """There is one already; files are never overwritten."""

    category = Category.PERMANENT


class FileTooLarge(FileStoreError):
    """It has more bytes than are allowed; limit is how many, where we know it."""

    category = Category.RESOURCE

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class UnsafePath(FileStoreError):
    """A path that could lead out of the store, or that not every store can keep."""

    category = Category.PERMANENT


class StoreAway(FileStoreError):
    """The store cannot be reached, or is broken; retry_after is in seconds, where it said so."""

    category = Category.TRANSIENT
    retryable = True
    outage = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreFull(FileStoreError):
    """There is no room left, which is no document's fault; nothing was kept."""

    category = Category.RESOURCE
    retryable = True
    outage = True


class StoreKeyRefused(FileStoreError):
    """The store wants another key, or one with more rights; not the documents' fault."""

    category = Category.CONFIGURATION
    outage = True


class StoreUnusable(FileStoreError):
    """There is no such folder or bucket, or it may not be used as we must."""

    category = Category.CONFIGURATION
    outage = True


class QueueError(PagewardenError):
    """The queues of volumes are the trouble."""


class QueueAway(QueueError):
    """They cannot be reached, or do not do their work."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class QueueUnusable(QueueError):
    """There is no such queue, or it may not be used as we must."""

    category = Category.CONFIGURATION
    outage = True


class ServerError(PagewardenError):
    """A Pagewarden server was asked, and it was not done."""


class ServerAway(ServerError):
    """It cannot be reached, or wants us to wait; retry_after is in seconds, where it said so."""

    category = Category.TRANSIENT
    retryable = True
    outage = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CallRefused(ServerError):
    """It said no, and would say so again; status and code are those of its answer."""

    category = Category.PERMANENT

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ArtifactUnusable(PagewardenError):
    """What a stage of a volume published is cut short, not ours, or from several runs.

    Running the stage again that published it helps, running one after it does not.
    """

    category = Category.PERMANENT


class LocalFileError(PagewardenError):
    """A file of this computer cannot be used, or changed while it was."""

    category = Category.PERMANENT


class LockLost(PagewardenError):
    """The document was taken away from this worker; whatever it read is void."""

    category = Category.TRANSIENT


LONGEST_WORDS = 2_000


def in_words(error: BaseException) -> str:
    """Put an error into words that the database can store, whatever a foreign file is called."""
    words = str(error).strip() or type(error).__name__
    fit = words[:LONGEST_WORDS].encode(errors="replace").decode()
    return fit.replace("\0", "\N{REPLACEMENT CHARACTER}")
