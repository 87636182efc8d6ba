"""Errors of the library as errors of ours."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from obstore import exceptions

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED_BY = "PAGEWARDEN_FILES"

_QUOTED = 300  # characters of the library's own words in a message of ours

# The library has no class for most statuses, and for none when it closes an upload: there it
# raises a bare OSError.
_STATUS = re.compile(r"status code: (\d{3})")
_PASSING = frozenset({408, 409, 425, 429})
_ARCHIVED = "<Code>InvalidObjectState</Code>"  # of an answer 403


@contextlib.contextmanager
def translated(path: str, *, writing: bool = False, named_by: str = NAMED_BY) -> Iterator[None]:
    """Raise errors of ours for those about this path; named_by is what names the bucket."""
    try:
        yield
    except FileNotFoundError as exc:
        if writing:
            raise errors.StoreUnusable(
                f"there is no such bucket; make it, or see to {named_by}"
            ) from exc
        raise errors.FileNotThere(f"there is no file {path!r}") from exc
    except exceptions.AlreadyExistsError as exc:
        raise errors.FileExists(
            f"there is a file at {path!r} already; choose another path"
        ) from exc
    except (exceptions.BaseError, OSError) as exc:
        if _ARCHIVED in str(exc):
            raise errors.FileAccessDenied(
                f"the file {path!r} is archived (Glacier); restore the object in the bucket, then "
                "requeue the document"
            ) from exc
        raise _of(exc, named_by) from exc


def _of(exc: Exception, named_by: str) -> errors.FileStoreError:
    where, _, what = str(exc).partition("\n")[0].partition(" - ")
    said = (what or where)[:_QUOTED]
    found = _STATUS.search(str(exc))
    status = int(found[1]) if found else 0
    if status in {401, 403}:
        return errors.StoreKeyRefused(
            "the bucket does not let us in; see to PAGEWARDEN_S3_ACCESS_KEY_ID and its rights to "
            f"list, get, put and delete ({said})"
        )
    if status == 413:
        return errors.FileTooLarge(f"the bucket takes no file of this size; split it ({said})")
    if status == 507:
        return errors.StoreFull(f"the bucket is full; make room in it ({said})")
    if status == 501 or (400 <= status < 500 and status not in _PASSING):
        return errors.StoreUnusable(
            f"the bucket cannot be used; see to {named_by}, PAGEWARDEN_S3_ENDPOINT and "
            f"PAGEWARDEN_S3_REGION ({said})"
        )
    return errors.StoreAway(f"the bucket cannot be reached; try again ({said})")
