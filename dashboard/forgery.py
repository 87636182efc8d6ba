"""Forms of other sites do nothing here: a POST comes from our pages, with its session's token."""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData

from dashboard import parts, visitors
from pagewarden import errors

FIELD = "csrf"
HEADER = "X-CSRF-Token"


def token(used: parts.Parts, visitor: visitors.Visitor) -> str:
    """Make the token of a session."""
    message = b"csrf of the dashboard:" + visitor.session_id.encode()
    return hmac.new(used.keys.secret_key.encode(), message, hashlib.sha256).hexdigest()


def require_own_origin(request: Request, used: parts.Used) -> None:
    """Refuse what was not sent by a page of ours; browsers name the origin of every POST."""
    origin, host = (request.headers.get(name, "") for name in ("origin", "host"))
    if origin not in {used.site_url, f"http://{host}", f"https://{host}"}:
        raise errors.Forbidden("this form was not sent by a page of ours; open the page again")


async def _require_token(
    request: Request,
    used: parts.Used,
    visitor: visitors.Signed,
    _own: Annotated[None, Depends(require_own_origin)],
) -> None:
    given = request.headers.get(HEADER) or str((await _form(request)).get(FIELD, ""))
    _compare(given, used, visitor)


async def _form(request: Request) -> FormData:
    # How much is too much is for the route to say, which counts all of it.
    return await request.form(max_part_size=sys.maxsize)


async def _require_header(
    request: Request,
    used: parts.Used,
    visitor: visitors.Signed,
    _own: Annotated[None, Depends(require_own_origin)],
) -> None:
    _compare(request.headers.get(HEADER, ""), used, visitor)


def guard(request: Request, used: parts.Parts, visitor: visitors.Visitor) -> Callable[[str], None]:
    """Make what refuses a form by its token, for whoever reads the form piece by piece."""

    def compare(given: str) -> None:
        _compare(request.headers.get(HEADER) or given, used, visitor)

    return compare


def _compare(given: str, used: parts.Parts, visitor: visitors.Visitor) -> None:
    if not hmac.compare_digest(given.encode(), token(used, visitor).encode()):
        raise errors.Forbidden("this form belongs to another session; open the page again")


OWN_ORIGIN = Depends(require_own_origin)
"""For a form that is sent before there is a session, or read by somebody with a guard()."""

Acting = Annotated[None, Depends(_require_token)]
"""A parameter of this type is on every POST of somebody who is signed in."""

Uploading = Annotated[None, Depends(_require_header)]
"""The same for a POST whose body is a file, which nobody may hold in memory."""
