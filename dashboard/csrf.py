"""CSRF protection: every POST must come from our own origin and carry its session's token."""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData

from pagewarden import errors, services
from pagewarden.dashboard import sessions
from pagewarden.services import Services

FIELD = "csrf"
HEADER = "X-CSRF-Token"


def make_token(services: Services, user: sessions.CurrentUser) -> str:
    """Return the CSRF token of a session."""
    message = b"csrf of the dashboard:" + user.session_id.encode()
    return hmac.new(services.keys.secret_key.encode(), message, hashlib.sha256).hexdigest()


def require_same_origin(request: Request, services: services.Current) -> None:
    """Reject a form from another site; browsers send the origin with every POST."""
    origin, host = (request.headers.get(name, "") for name in ("origin", "host"))
    if origin not in {services.settings.site_url, f"http://{host}", f"https://{host}"}:
        raise errors.Forbidden("this form was sent from another site; reload the page")


async def _require_token(
    request: Request,
    services: services.Current,
    user: sessions.SignedIn,
    _origin: Annotated[None, Depends(require_same_origin)],
) -> None:
    token = request.headers.get(HEADER) or str((await _read_form(request)).get(FIELD, ""))
    _verify_token(token, services, user)


async def _read_form(request: Request) -> FormData:
    # The route limits the size of the whole body.
    return await request.form(max_part_size=sys.maxsize)


async def _require_header(
    request: Request,
    services: services.Current,
    user: sessions.SignedIn,
    _origin: Annotated[None, Depends(require_same_origin)],
) -> None:
    _verify_token(request.headers.get(HEADER, ""), services, user)


def make_token_check(
    request: Request, services: Services, user: sessions.CurrentUser
) -> Callable[[str], None]:
    """Return a function that checks the token of a form parsed while it arrives."""

    def check(token: str) -> None:
        _verify_token(request.headers.get(HEADER) or token, services, user)

    return check


def _verify_token(token: str, services: Services, user: sessions.CurrentUser) -> None:
    if not hmac.compare_digest(token.encode(), make_token(services, user).encode()):
        raise errors.Forbidden("this form belongs to another session; reload the page")


OWN_ORIGIN = Depends(require_same_origin)
"""For forms without a session, such as sign-in, and forms checked by make_token_check()."""

FormToken = Annotated[None, Depends(_require_token)]
"""Route parameter type that checks the CSRF token in a signed-in user's POST."""

HeaderToken = Annotated[None, Depends(_require_header)]
"""Like FormToken, but for a POST whose body is a file that must not be read into memory."""
