"""The routes of Supabase Auth that signing in takes, so that its clients need no other.

People are added by operators; whoever comes by himself is turned away.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request, Response, security
from starlette.responses import JSONResponse, RedirectResponse

from pagewarden import errors
from pagewarden.local.sign_in import answers, route, service, sessions

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "/auth/v1"

# What every route may answer besides its own refusals.
_ALWAYS = (400, 408, 413, 422, 503)

_BEARER = security.HTTPBearer(auto_error=False, description="The access token of a person.")

Bearer = Annotated[security.HTTPAuthorizationCredentials | None, Depends(_BEARER)]


def _origin(request: Request) -> sessions.Origin:
    address = request.client.host if request.client else ""
    return sessions.Origin(address, request.headers.get("user-agent", ""))


Origin = Annotated[sessions.Origin, Depends(_origin)]


class Routes:
    """What each route does."""

    def __init__(self, doing: service.Service) -> None:
        self._service = doing

    async def token(
        self,
        body: answers.Credentials,
        origin: Origin,
        grant_type: Annotated[Literal["password", "refresh_token"], Query()],
    ) -> answers.SessionAnswer:
        """Sign in with a password, or stay signed in with a refresh token."""
        if grant_type == "password":
            grant = await self._service.sign_in(body.email, body.password, origin)
        else:
            grant = await self._service.refresh(body.refresh_token, origin)
        return answers.SessionAnswer.of(grant)

    async def get_user(self, bearer: Bearer) -> answers.UserAnswer:
        """Show who is signed in."""
        return answers.UserAnswer.of((await self._signed_in(bearer)).user)

    async def change_user(self, body: answers.UserChanges, bearer: Bearer) -> answers.UserAnswer:
        """Change the password, which ends all other sessions, or one's own metadata."""
        who = await self._signed_in(bearer)
        if body.phone or (body.email and body.email.strip().lower() != who.user.email):
            raise errors.SignInRefused(
                "an address is changed by the people who run this system; ask them",
                status=422,
                code="validation_failed",
            )
        changes = service.Changes(body.password, body.current_password, body.data)
        return answers.UserAnswer.of(await self._service.change(who, changes))

    async def logout(self, bearer: Bearer, scope: sessions.Scope = sessions.Scope.GLOBAL) -> None:
        """Sign out here, everywhere, or everywhere else."""
        await self._service.sign_out(await self._signed_in(bearer), scope)

    async def recover(
        self, body: answers.Recovery, origin: Origin, later: BackgroundTasks
    ) -> answers.Nothing:
        """Send a recovery link, if anybody has the address; the answer does not tell."""
        await self._service.count_recovery(origin)
        # After the answer, so that its time does not tell either.
        later.add_task(self._service.recover, body.email)
        return answers.Nothing()

    async def verify(self, body: answers.Verification, origin: Origin) -> answers.SessionAnswer:
        """Sign in with the token of a recovery link."""
        grant = await self._service.use_recovery(
            body.token_hash or body.token, body.email.strip().lower() or None, origin
        )
        return answers.SessionAnswer.of(grant)

    async def follow_link(
        self,
        origin: Origin,
        token: str,
        type: Literal["recovery"],  # noqa: A002, ARG002  # Supabase says so
        redirect_to: str = "",
    ) -> Response:
        """Follow a recovery link: leads on to this site, with the session behind the #."""
        site = self._service.site_url
        target = redirect_to if _same_origin(redirect_to, site) else site
        try:
            grant = await self._service.use_recovery(token, None, origin)
        except errors.SignInRefused as exc:
            found = {
                "error": "access_denied",
                "error_code": exc.code,
                "error_description": str(exc),
            }
        else:
            found = answers.SessionAnswer.of(grant).model_dump(exclude={"user"}) | {
                "type": "recovery"
            }
        return RedirectResponse(f"{target.partition('#')[0]}#{urlencode(found)}", 303)

    async def sign_up(self) -> None:
        """Refuse: people are added by those who run this system."""
        raise errors.SignInRefused(
            "Signups not allowed for this instance", status=422, code="signup_disabled"
        )

    async def health(self) -> answers.Health:
        """Say that the sign-in works, database included."""
        await self._service.require_home()
        return answers.Health(version=metadata.version("pagewarden"))

    async def settings(self) -> answers.SettingsAnswer:
        """Say what ways in there are."""
        return answers.SettingsAnswer()

    async def public_keys(self) -> answers.KeySet:
        """Give the public keys that tokens are checked with."""
        return answers.KeySet()

    async def _signed_in(
        self, bearer: security.HTTPAuthorizationCredentials | None
    ) -> service.SignedIn:
        if bearer is None:
            raise errors.SignInRefused(
                "This endpoint requires a Bearer token", status=401, code="no_authorization"
            )
        return await self._service.signed_in(bearer.credentials)


def router(doing: service.Service) -> APIRouter:
    """Make the routes; whoever mounts them closes the service in the end."""
    made = APIRouter(prefix=PREFIX, route_class=route.Route, tags=["sign-in"])
    does = Routes(doing)

    def add(
        method: str, path: str, endpoint: Callable[..., Any], *refusals: int, status: int = 200
    ) -> None:
        made.add_api_route(
            path,
            endpoint,
            methods=[method],
            status_code=status,
            response_class=RedirectResponse if status == 303 else JSONResponse,
            responses={code: {"model": answers.Refusal} for code in (*_ALWAYS, *refusals)},
        )

    add("POST", "/token", does.token, 429)
    add("GET", "/user", does.get_user, 401, 403)
    add("PUT", "/user", does.change_user, 401, 403)
    add("POST", "/logout", does.logout, 401, 403, status=204)
    add("POST", "/recover", does.recover, 429)
    add("POST", "/verify", does.verify, 403)
    add("GET", "/verify", does.follow_link, status=303)
    add("POST", "/signup", does.sign_up)
    add("GET", "/health", does.health)
    add("GET", "/settings", does.settings)
    add("GET", "/.well-known/jwks.json", does.public_keys)
    return made


def _same_origin(url: str, site: str) -> bool:
    try:
        found, ours = urlsplit(url), urlsplit(site)
    except ValueError:
        return False
    return (found.scheme, found.netloc) == (ours.scheme, ours.netloc)
