"""The HTTP status of each error, and what each status means."""

from __future__ import annotations

from pagewarden import errors

# The first match counts, so subclasses come before their bases.
_STATUS: tuple[tuple[type[errors.PagewardenError], int], ...] = (
    (errors.NotSignedIn, 401),
    (errors.Forbidden, 403),
    (errors.InvalidArgument, 400),
    (errors.Conflict, 409),
    (errors.LockLost, 409),
    (errors.FileTooLarge, 413),
    (errors.DocumentTooLarge, 413),
    (errors.FileNotFound, 404),
    (errors.UnsafePath, 400),
    (errors.UnreadableFile, 422),
    (errors.RateLimited, 429),
    (errors.StoreFull, 507),
    (errors.FileAccessDenied, 503),
)
# Codes of RequestRejected; any other means that the current state does not allow the request.
_REFUSED_STATUS = {
    "INVALID_JOB": 400,
    "INVALID_MESSAGE": 400,
    "INVALID_REQUEST": 400,
    "NO_CASE": 400,
    "NO_FILE": 400,
    "NO_NAME": 400,
    "NO_WEBHOOKS": 400,
    "CASE_NOT_FOUND": 404,
    "DOCUMENT_NOT_FOUND": 404,
    "JOB_NOT_FOUND": 404,
    "TOO_SLOW": 408,
    "JOB_TOO_LARGE": 413,
    "FORBIDDEN_TYPE": 415,
    "TOO_MANY_REQUESTS": 429,
    "NOT_DONE_YET": 503,
    "NOT_READY": 503,
    "SWITCHED_OFF": 503,
    "STORE_FULL": 507,
}
_REFUSED_DEFAULT_STATUS = 409

MEANINGS = {
    400: "The request is invalid; the message says why.",
    401: "The token or key is missing, invalid or expired.",
    403: "The caller may not do this.",
    404: "It does not exist, or the caller may not see it.",
    408: "The body took too long to arrive.",
    409: "The current state does not allow this.",
    413: "The body is too large.",
    415: "Files of this type are not accepted.",
    422: "The content cannot be processed; the message says why.",
    429: "Rate limit exceeded; `Retry-After` says when to retry.",
    503: "Out of service or disabled; `Retry-After` says when to retry.",
    507: "The disk of the file store is full.",
}
"""Descriptions of error responses in the OpenAPI document."""


def get_status(error: errors.PagewardenError) -> int:
    """Return the HTTP status of a response that reports this error."""
    if isinstance(error, errors.RequestRejected):
        return _REFUSED_STATUS.get(error.code, _REFUSED_DEFAULT_STATUS)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    return status or (503 if error.outage else 500)
