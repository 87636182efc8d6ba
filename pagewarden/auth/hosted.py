"""Sign-in and users of a hosted Supabase project, and the protocol SignInProvider."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import postgrest
import supabase_auth
from supabase_auth import errors as auth_errors

import supabase
from pagewarden import errors, retry
from pagewarden.auth.embedded.users import UserSummary, normalize_email, unknown_user_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pagewarden.auth.embedded import sessions

_SIGN_IN_TIMEOUT_SECONDS = 10
_ADMIN_TIMEOUT_SECONDS = 30
_USERS_PER_PAGE = 1000


class SessionTokens(Protocol):
    """The tokens of a session."""

    @property
    def access_token(self) -> str:
        """Identifies the user, for an hour."""

    @property
    def refresh_token(self) -> str:
        """Gets the next tokens, once."""


@dataclass(frozen=True, slots=True)
class Session:
    """The tokens of a session, as a plain value."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


class SignInProvider(Protocol):
    """How the dashboard signs users in: HostedSignIn, or AuthService on an embedded stack.

    It raises errors.SignInRejected for wrong credentials and expired sessions.
    """

    async def sign_in(
        self, email: str, password: str, origin: sessions.RequestOrigin
    ) -> SessionTokens:
        """Start a session."""

    async def refresh(self, token: str, origin: sessions.RequestOrigin) -> SessionTokens:
        """Continue a session with new tokens."""

    async def sign_out(self, access_token: str, /) -> None:
        """End the session of this token."""


@dataclass(frozen=True, slots=True)
class HostedSignIn:
    """Supabase Auth of a project; `http` has its URL and the publishable key."""

    http: httpx.AsyncClient

    async def sign_in(self, email: str, password: str, origin: sessions.RequestOrigin) -> Session:
        """Start a session."""
        return await self._request_tokens("password", origin, email=email, password=password)

    async def refresh(self, token: str, origin: sessions.RequestOrigin) -> Session:
        """Continue a session with new tokens."""
        return await self._request_tokens("refresh_token", origin, refresh_token=token)

    async def sign_out(self, access_token: str) -> None:
        """End the session of this token."""
        bearer = {"Authorization": f"Bearer {access_token}"}
        await self._post("/auth/v1/logout", {"scope": "local"}, headers=bearer)

    async def _request_tokens(
        self, grant_type: str, origin: sessions.RequestOrigin, **credentials: str
    ) -> Session:
        response = await self._post(
            "/auth/v1/token",
            {"grant_type": grant_type},
            headers={"User-Agent": origin.user_agent},
            json=credentials,
        )
        tokens = response.json()
        return Session(tokens["access_token"], tokens["refresh_token"])

    async def _post(self, path: str, params: dict[str, str], **options: Any) -> httpx.Response:  # noqa: ANN401  # httpx's
        try:
            response = await self.http.post(path, params=params, **options)
        except httpx.HTTPError as exc:
            raise errors.SignInUnavailable(
                f"Supabase Auth is not responding ({exc}); try again"
            ) from exc
        if response.status_code >= 500:
            raise errors.SignInUnavailable("Supabase Auth is currently unavailable; try again")
        if response.is_error:
            raise _refusal(response)
        return response


@contextlib.asynccontextmanager
async def open_hosted_sign_in(url: str, publishable_key: str) -> AsyncIterator[HostedSignIn]:
    """Connect to the Supabase Auth of a project."""
    async with httpx.AsyncClient(
        base_url=url, headers={"apikey": publishable_key}, timeout=_SIGN_IN_TIMEOUT_SECONDS
    ) as http:
        yield HostedSignIn(http)


def _refusal(response: httpx.Response) -> errors.SignInRejected:
    try:
        body = response.json()
    except ValueError:
        body = {}
    seconds = retry.parse_retry_after(response.headers.get("Retry-After"))
    return errors.SignInRejected(
        str(body.get("msg") or response.reason_phrase),
        status=response.status_code,
        code=str(body.get("error_code") or "unexpected_failure"),
        retry_after=None if seconds is None else math.ceil(seconds),
    )


class HostedUserManager:
    """Manages the users of a Supabase project through its admin API."""

    def __init__(self, client: supabase.AsyncClient, *, site_url: str) -> None:
        self._client = client
        self._admin = client.auth.admin
        self._site_url = site_url

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Add a user; `is_admin` makes them a member of HAC."""
        with _translate_errors():
            created = await self._admin.create_user(
                {"email": email, "password": password, "email_confirm": True}
            )
        if is_admin:
            await self._add_role(created.user.id)

    async def set_password(self, email: str, password: str) -> None:
        """Set a new password, and end all sessions of the user."""
        user = await self._get(email)
        with _translate_errors():
            await self._admin.update_user_by_id(user.id, {"password": password})

    async def create_recovery_link(self, email: str) -> str:
        """Create a link to set a new password, valid once."""
        await self._get(email)
        with _translate_errors():
            link = await self._admin.generate_link(
                {"type": "recovery", "email": email, "options": {"redirect_to": self._site_url}}
            )
        return link.properties.action_link

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Add a user to HAC (role admin), or remove them."""
        user = await self._get(email)
        if is_admin:
            await self._add_role(user.id)
            return
        with _translate_errors():
            roles = self._client.table("user_roles").delete()
            await roles.eq("user_id", user.id).eq("role", "admin").execute()

    async def list_all(self) -> list[UserSummary]:
        """Return all users, sorted by email address."""
        with _translate_errors():
            roles = await self._client.table("user_roles").select("*").eq("role", "admin").execute()
        admins = {row["user_id"] for row in roles.data if isinstance(row, dict)}
        users = [
            UserSummary(user.email, user.id in admins, user.created_at, user.last_sign_in_at)
            async for user in self._fetch_users()
            if user.email
        ]
        return sorted(users, key=lambda user: user.email)

    async def remove(self, email: str) -> None:
        """Remove a user; their cases remain, visible to HAC."""
        user = await self._get(email)
        with _translate_errors():
            await self._admin.delete_user(user.id)

    async def _add_role(self, user_id: str) -> None:
        with _translate_errors():
            role = {"user_id": user_id, "role": "admin"}
            await self._client.table("user_roles").upsert(role).execute()

    async def _get(self, email: str) -> supabase_auth.User:
        wanted = normalize_email(email)
        async for user in self._fetch_users():
            if user.email == wanted:
                return user
        raise unknown_user_error(email)

    async def _fetch_users(self) -> AsyncIterator[supabase_auth.User]:
        page = 1
        while True:
            with _translate_errors():
                users = await self._admin.list_users(page=page, per_page=_USERS_PER_PAGE)
            for user in users:
                yield user
            if len(users) < _USERS_PER_PAGE:
                return
            page += 1


@contextlib.asynccontextmanager
async def open_hosted_users(
    url: str, key: str, *, site_url: str
) -> AsyncIterator[HostedUserManager]:
    """Connect to the admin API of a project with its secret key."""
    async with httpx.AsyncClient(timeout=_ADMIN_TIMEOUT_SECONDS) as session:
        options = supabase.AsyncClientOptions(
            httpx_client=session, auto_refresh_token=False, postgrest_client_retry=False
        )
        yield HostedUserManager(supabase.AsyncClient(url, key, options), site_url=site_url)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except auth_errors.AuthRetryableError as exc:
        raise errors.SignInUnavailable(
            f"the Supabase project cannot be reached: {exc.message}"
        ) from exc
    except auth_errors.AuthApiError as exc:
        raise errors.SignInRejected(
            f"the Supabase project returned an error: {exc.message}",
            status=exc.status,
            code=exc.code or "unexpected_failure",
        ) from exc
    except auth_errors.AuthError as exc:
        raise errors.SignInError(f"the Supabase project returned an error: {exc.message}") from exc
    except postgrest.APIError as exc:
        raise errors.DatabaseError(
            exc.message or "the roles could not be changed", sqlstate=exc.code, hint=exc.hint
        ) from exc
    except httpx.HTTPError as exc:
        raise errors.DatabaseUnavailable(f"the Supabase project cannot be reached: {exc}") from exc
