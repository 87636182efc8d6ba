"""Every error that Pagewarden raises, and how workers and servers treat it.

PagewardenError
├── SettingsError                a setting is missing, unknown or unsafe
├── ExtraNotInstalled            an optional dependency is not installed
├── RequestRejected              a request is invalid or not possible; nothing was changed
├── DatabaseError                the database rejected a call
│   ├── InvalidArgument          an argument is invalid (SQLSTATE 22xxx, 23xxx)
│   ├── Forbidden                the caller lacks the permission (42501)
│   ├── Conflict                 a concurrent transaction interfered (40001, 40P01, 55P03)
│   └── DatabaseUnavailable      the database is unreachable; an outage
├── LocalStackError              the embedded server cannot be set up or started
├── ReadingError                 a document or one of its pages could not be read
│   ├── UnreadableFile           the file can never be read as it is
│   │   ├── EmptyFile            it has no content
│   │   ├── UnsupportedFile      its type is not supported
│   │   ├── EncryptedFile        it needs a password
│   │   └── DamagedFile          it or one of its pages is damaged
│   ├── LimitExceeded            it needs more than the limits allow
│   │   ├── DocumentTooLarge     bytes, pages or pixels
│   │   ├── OutOfMemory          the memory limit of the sandbox
│   │   └── ReaderKilled         the process that parsed it died
│   └── ReadingTimedOut          the time limit
├── EngineError                  the engine failed, not the file
│   ├── EngineNotInstalled       it is not installed, or lacks its language data
│   ├── ApiKeyRejected           the service rejects the API key
│   ├── EngineUnavailable        the service is unreachable; an outage
│   ├── RateLimited              the rate limit is exceeded
│   ├── PageRejected             the service declines to read this page
│   └── InvalidEngineResponse    the service returned an invalid or incomplete response
├── SignInError                  a sign-in or an authentication failed
│   ├── NotSignedIn              the token is missing or invalid
│   ├── SignInRejected           the sign-in service rejects the request
│   └── SignInUnavailable        the keys that verify tokens are unavailable; an outage
├── FileStoreError               the file store failed
│   ├── FileNotFound             the file does not exist
│   ├── FileAccessDenied         the store denies access to this file
│   ├── FileExists               the file exists; files are never overwritten
│   ├── FileTooLarge             the file exceeds the size limit
│   ├── UnsafePath               the path could leave the store, or is invalid in one
│   ├── StoreUnavailable         the store is unreachable; an outage
│   ├── StoreFull                the store has no space left; an outage
│   ├── StoreCredentialsRejected the store rejects the credentials; an outage
│   └── StoreMisconfigured       the folder or bucket is missing or inaccessible; an outage
├── QueueError                   the queues of volumes failed
│   ├── QueueUnavailable         they are unreachable; an outage
│   └── QueueMisconfigured       the queue is missing or inaccessible; an outage
├── ServerError                  a call to a Pagewarden server failed
│   ├── ServerUnavailable        the server is unreachable or overloaded; an outage
│   └── CallRejected             the server rejects the call
├── FunctionDisabled             the function that reads a document is disabled
├── DispatchFailed               a function could not be called; an outage
├── InvalidArtifact              an artifact of a volume is truncated or inconsistent
├── LocalFileError               a file of this machine is unusable, or changed while in use
└── LockLost                     another worker or the sweep took the document

Each class states its category (how a dead letter is filed), whether a retry may help, and
whether it is an outage: an outage returns the document without counting an attempt.
Messages say what to do next. Names of classes are part of the API: NotSignedIn is
NOT_SIGNED_IN in the error responses of the functions.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DESCRIPTION_LENGTH = 2_000


class Category(enum.StrEnum):
    """How a failure is filed in the dead letters."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    RESOURCE = "resource"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"


class PagewardenError(Exception):
    """Base class of all errors of Pagewarden."""

    category: ClassVar[Category] = Category.UNKNOWN
    retryable: ClassVar[bool] = False
    outage: ClassVar[bool] = False


class SettingsError(PagewardenError):
    """A setting is missing, unknown or unsafe."""

    category = Category.CONFIGURATION


class ExtraNotInstalled(PagewardenError):
    """An optional dependency is not installed."""

    category = Category.CONFIGURATION


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a request is refused; `image` names the file, None if it is the request."""

    problem: str
    image: str | None = None


class RequestRejected(PagewardenError):
    """A request is invalid, or not possible in the current state; nothing was changed.

    `code` is stable and for programs, such as INVALID_JOB; `problems` lists every reason where
    there are several; `retry_after` is in seconds, None if a retry cannot help or its time is
    unknown.
    """

    category = Category.PERMANENT

    def __init__(
        self,
        code: str,
        message: str,
        problems: Sequence[Problem] = (),
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.problems = tuple(problems)
        self.retry_after = retry_after


class DatabaseError(PagewardenError):
    """The database rejected a call; `sqlstate` and `hint` are those of Postgres."""

    def __init__(
        self, message: str, *, sqlstate: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.sqlstate = sqlstate
        self.hint = hint


class InvalidArgument(DatabaseError):
    """An argument is invalid; nothing was changed."""

    category = Category.PERMANENT


class Forbidden(DatabaseError):
    """The caller lacks the permission; nothing was changed."""

    category = Category.CONFIGURATION


class Conflict(DatabaseError):
    """A concurrent transaction interfered; nothing was changed, and a retry helps."""

    category = Category.TRANSIENT
    retryable = True


class DatabaseUnavailable(DatabaseError):
    """The database is unreachable; whether a call in progress was committed is unknown."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class LocalStackError(PagewardenError):
    """The embedded server cannot be set up or started."""

    category = Category.CONFIGURATION


class ReadingError(PagewardenError):
    """A document or one of its pages could not be read."""


class UnreadableFile(ReadingError):
    """The file can never be read as it is."""

    category = Category.PERMANENT


class EmptyFile(UnreadableFile):
    """The file has no content."""


class UnsupportedFile(UnreadableFile):
    """The type of the file is not supported."""


class EncryptedFile(UnreadableFile):
    """The file needs a password."""


class DamagedFile(UnreadableFile):
    """The file or one of its pages is damaged."""


class LimitExceeded(ReadingError):
    """The document needs more than the limits allow."""

    category = Category.RESOURCE


class DocumentTooLarge(LimitExceeded):
    """The document has too many bytes, pages or pixels; a retry cannot help."""

    category = Category.PERMANENT


class OutOfMemory(LimitExceeded):
    """The document exceeds the memory limit of the sandbox."""


class ReaderKilled(LimitExceeded):
    """The process that parsed the document died."""


class ReadingTimedOut(ReadingError):
    """The time limit is exceeded; a retry may succeed on a less loaded machine."""

    category = Category.TRANSIENT
    retryable = True


class EngineError(PagewardenError):
    """The engine failed, not the file."""


class EngineNotInstalled(EngineError):
    """The engine is not installed, or lacks its language data."""

    category = Category.CONFIGURATION


class ApiKeyRejected(EngineError):
    """The service rejects the API key."""

    category = Category.CONFIGURATION


class EngineUnavailable(EngineError):
    """The service is unreachable, or returns server errors."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class RateLimited(EngineError):
    """The rate limit is exceeded; `retry_after` is in seconds, None if unknown."""

    category = Category.TRANSIENT
    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PageRejected(EngineError):
    """The service declines to read this page; a retry cannot help."""

    category = Category.PERMANENT


class InvalidEngineResponse(EngineError):
    """The service returned an invalid or incomplete response."""

    category = Category.TRANSIENT
    retryable = True


PAGE_ERRORS = (ReadingError, PageRejected, InvalidEngineResponse)
"""Errors that affect only one page: that page fails, and the rest of the document is read."""


class SignInError(PagewardenError):
    """A sign-in or an authentication failed."""


class NotSignedIn(SignInError):
    """The token is missing or invalid: expired, forged, or issued for another system."""

    category = Category.CONFIGURATION


class SignInRejected(SignInError):
    """The sign-in service rejects the request.

    `status` and `code` are those of Supabase Auth, which its clients know; `retry_after` is in
    seconds; `reasons` say why a password is too weak.
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


class SignInUnavailable(SignInError):
    """The keys that verify tokens cannot be fetched, so the token could not be checked."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class FileStoreError(PagewardenError):
    """The file store failed."""


class FileNotFound(FileStoreError):
    """The file does not exist, or not yet: it may arrive after its document."""

    category = Category.TRANSIENT


class FileAccessDenied(FileStoreError):
    """The store works but denies access to this file: its mode, or it is archived."""

    category = Category.CONFIGURATION


class FileExists(FileStoreError):
    """The file exists already; files are never overwritten."""

    category = Category.PERMANENT


class FileTooLarge(FileStoreError):
    """The file exceeds the size limit; `limit` is in bytes, None if unknown."""

    category = Category.RESOURCE

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class UnsafePath(FileStoreError):
    """The path could leave the store, or is invalid in one of the kinds of stores."""

    category = Category.PERMANENT


class StoreUnavailable(FileStoreError):
    """The store is unreachable or broken; `retry_after` is in seconds, None if unknown."""

    category = Category.TRANSIENT
    retryable = True
    outage = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StoreFull(FileStoreError):
    """The store has no space left; nothing was stored."""

    category = Category.RESOURCE
    retryable = True
    outage = True


class StoreCredentialsRejected(FileStoreError):
    """The store rejects the credentials, or they lack a permission."""

    category = Category.CONFIGURATION
    outage = True


class StoreMisconfigured(FileStoreError):
    """The folder or bucket is missing, or lacks the required access."""

    category = Category.CONFIGURATION
    outage = True


class QueueError(PagewardenError):
    """The queues of volumes failed."""


class QueueUnavailable(QueueError):
    """The queues are unreachable or broken."""

    category = Category.TRANSIENT
    retryable = True
    outage = True


class QueueMisconfigured(QueueError):
    """The queue is missing, or lacks the required access."""

    category = Category.CONFIGURATION
    outage = True


class ServerError(PagewardenError):
    """A call to a Pagewarden server failed."""


class ServerUnavailable(ServerError):
    """The server is unreachable or overloaded; `retry_after` is in seconds, None if unknown."""

    category = Category.TRANSIENT
    retryable = True
    outage = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CallRejected(ServerError):
    """The server rejects the call; `status` and `code` are those of its response."""

    category = Category.PERMANENT

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class FunctionDisabled(PagewardenError):
    """The function that reads a document is disabled; the attempt is not counted."""

    category = Category.CONFIGURATION
    retryable = True


class DispatchFailed(PagewardenError):
    """A function could not be called, or something else answered; no attempt is counted."""

    category = Category.CONFIGURATION
    retryable = True
    outage = True


class InvalidArtifact(PagewardenError):
    """An artifact of a volume is truncated, foreign, or mixed from several runs.

    Rerunning the stage that published it helps; rerunning a later stage does not.
    """

    category = Category.PERMANENT


class LocalFileError(PagewardenError):
    """A file of this machine cannot be used, or changed while it was in use."""

    category = Category.PERMANENT


class LockLost(PagewardenError):
    """Another worker or the sweep took the document; the results of this attempt are void."""

    category = Category.TRANSIENT


def describe(error: BaseException) -> str:
    """Return the message of an error in a form that the database can store.

    Messages may contain names of users' files: with surrogates or NUL, or overlong.
    """
    message = str(error).strip() or type(error).__name__
    storable = message[:MAX_DESCRIPTION_LENGTH].encode(errors="replace").decode()
    return storable.replace("\0", "\N{REPLACEMENT CHARACTER}")
