"""Routes below /auth/v1, with bounded bodies.

They are the routes of Supabase Auth that its clients need to sign in. Operators add users; signing
up is refused.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode, urlsplit

from fastapi import (
    APIRouter,
    BackgroundTasks,
    Depends,
    Query,
    Request,
    Response,
    exceptions,
    security,
)
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse

from pagewarden import errors
from pagewarden.auth.embedded import schemas, service, sessions
from pagewarden.web import request_body
from pagewarden.web.errors import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PREFIX = "/auth/v1"

# Statuses that every route may answer with, besides its own.
_COMMON_STATUSES = (400, 408, 413, 422, 503)
_RETRY_SECONDS = 5
_CODES = {408: "request_timeout", 400: "bad_json"}


class AuthRoute(request_body.BodyLimitRoute):
    """A route whose errors have the format of Supabase Auth."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that translates errors, and forbids caching."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except (
                errors.PagewardenError,
                HTTPException,
                exceptions.RequestValidationError,
            ) as exc:
                response = schemas.error_response(_refusal(exc))
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return answer


def _refusal(exc: Exception) -> errors.SignInRejected:
    match exc:
        case errors.SignInRejected():
            return exc
        case exceptions.RequestValidationError():
            # The rest of the error quotes the request, and with it the password.
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
            return errors.SignInRejected(wrong, status=400, code="validation_failed")
        case HTTPException():
            code = _CODES.get(exc.status_code, "validation_failed")
            return errors.SignInRejected(str(exc.detail), status=exc.status_code, code=code)
        case errors.InvalidArgument() if (exc.sqlstate or "").startswith("22"):
            return errors.SignInRejected(str(exc), status=400, code="validation_failed")
        case errors.PagewardenError() if exc.retryable:
            return errors.SignInRejected(
                "sign-in is currently unavailable; try again shortly",
                status=503,
                code="unexpected_failure",
                retry_after=_RETRY_SECONDS,
            )
    raise exc


_BEARER = security.HTTPBearer(
    scheme_name="UserToken", auto_error=False, description="A user's access token."
)

Bearer = Annotated[security.HTTPAuthorizationCredentials | None, Depends(_BEARER)]


def _get_origin(request: Request) -> sessions.RequestOrigin:
    address = request.client.host if request.client else ""
    return sessions.RequestOrigin(address, request.headers.get("user-agent", ""))


Origin = Annotated[sessions.RequestOrigin, Depends(_get_origin)]


class AuthHandlers:
    """The handlers of the routes."""

    def __init__(self, auth: service.AuthService) -> None:
        self._auth = auth

    async def token(
        self,
        body: schemas.Credentials,
        origin: Origin,
        grant_type: Annotated[Literal["password", "refresh_token"], Query()],
    ) -> schemas.SessionResponse:
        """Sign in with a password, or continue a session with a refresh token."""
        if grant_type == "password":
            pair = await self._auth.sign_in(body.email, body.password, origin)
        else:
            pair = await self._auth.refresh(body.refresh_token, origin)
        return schemas.SessionResponse.from_tokens(pair)

    async def get_user(self, bearer: Bearer) -> schemas.UserResponse:
        """Return the user who is signed in."""
        return schemas.UserResponse.from_user((await self._authenticate(bearer)).user)

    async def change_user(self, body: schemas.UserChanges, bearer: Bearer) -> schemas.UserResponse:
        """Change the password, which ends all other sessions, or the metadata."""
        current = await self._authenticate(bearer)
        if body.phone or (body.email and body.email.strip().lower() != current.user.email):
            raise errors.SignInRejected(
                "only an operator can change an email address or phone number",
                status=422,
                code="validation_failed",
            )
        changes = service.AccountChanges(body.password, body.current_password, body.data)
        return schemas.UserResponse.from_user(await self._auth.change(current, changes))

    async def logout(
        self, bearer: Bearer, scope: sessions.SignOutScope = sessions.SignOutScope.GLOBAL
    ) -> None:
        """End this session, all sessions of the user, or all others."""
        await self._auth.sign_out(_require_token(bearer), scope)

    async def recover(
        self, body: schemas.RecoveryRequest, origin: Origin, background: BackgroundTasks
    ) -> schemas.EmptyResponse:
        """Send a recovery link if the user exists; the answer does not reveal that."""
        await self._auth.count_recovery(origin)
        # After the answer, so that its duration does not reveal it either.
        background.add_task(self._auth.recover, body.email)
        return schemas.EmptyResponse()

    async def verify(
        self, body: schemas.VerificationRequest, origin: Origin
    ) -> schemas.SessionResponse:
        """Sign in with the token of a recovery link."""
        pair = await self._auth.use_recovery(
            body.token_hash or body.token, body.email.strip().lower() or None, origin
        )
        return schemas.SessionResponse.from_tokens(pair)

    async def follow_link(
        self,
        origin: Origin,
        token: str,
        type: Literal["recovery"],  # noqa: A002, ARG002  # as Supabase names it
        redirect_to: str = "",
    ) -> Response:
        """Follow a recovery link: redirect to this site, with the session in the fragment."""
        site = self._auth.site_url
        target = redirect_to if _same_origin(redirect_to, site) else site
        try:
            pair = await self._auth.use_recovery(token, None, origin)
        except errors.SignInRejected as exc:
            fragment = {
                "error": "access_denied",
                "error_code": exc.code,
                "error_description": str(exc),
            }
        else:
            fragment = schemas.SessionResponse.from_tokens(pair).model_dump(exclude={"user"}) | {
                "type": "recovery"
            }
        return RedirectResponse(f"{target.partition('#')[0]}#{urlencode(fragment)}", 303)

    async def sign_up(self) -> None:
        """Refuse to sign up: operators add users."""
        raise errors.SignInRejected(
            "Signups not allowed for this instance", status=422, code="signup_disabled"
        )

    async def health(self) -> schemas.HealthResponse:
        """Check that the sign-in and its database work."""
        await self._auth.require_ready()
        return schemas.HealthResponse(version=metadata.version("pagewarden"))

    async def settings(self) -> schemas.SettingsResponse:
        """Return the available sign-in methods."""
        return schemas.SettingsResponse()

    async def public_keys(self) -> schemas.KeySet:
        """Return the public keys of access tokens."""
        return schemas.KeySet()

    async def _authenticate(
        self, bearer: security.HTTPAuthorizationCredentials | None
    ) -> service.AuthenticatedUser:
        return await self._auth.authenticate(_require_token(bearer))


def _require_token(bearer: security.HTTPAuthorizationCredentials | None) -> str:
    if bearer is None:
        raise errors.SignInRejected(
            "This endpoint requires a Bearer token", status=401, code="no_authorization"
        )
    return bearer.credentials


def make_router(auth: service.AuthService) -> APIRouter:
    """Return the routes; the caller closes the service."""
    router = APIRouter(prefix=PREFIX, route_class=AuthRoute, tags=["sign-in"])
    routes = AuthHandlers(auth)

    def add(
        method: str, path: str, endpoint: Callable[..., Any], *statuses: int, status: int = 200
    ) -> None:
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            status_code=status,
            response_class=RedirectResponse if status == 303 else JSONResponse,
            responses={
                code: {"model": schemas.AuthErrorResponse, "description": MEANINGS[code]}
                for code in (*_COMMON_STATUSES, *statuses)
            },
        )

    add("POST", "/token", routes.token, 429)
    add("GET", "/user", routes.get_user, 401, 403)
    add("PUT", "/user", routes.change_user, 401, 403)
    add("POST", "/logout", routes.logout, 401, 403, status=204)
    add("POST", "/recover", routes.recover, 429)
    add("POST", "/verify", routes.verify, 403)
    add("GET", "/verify", routes.follow_link, status=303)
    add("POST", "/signup", routes.sign_up)
    add("GET", "/health", routes.health)
    add("GET", "/settings", routes.settings)
    add("GET", "/.well-known/jwks.json", routes.public_keys)
    return router


def _same_origin(url: str, site: str) -> bool:
    try:
        target, own = urlsplit(url), urlsplit(site)
    except ValueError:
        return False
    return (target.scheme, target.netloc) == (own.scheme, own.netloc)
