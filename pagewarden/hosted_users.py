"""The people of a Supabase project, through its admin API."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import httpx
import postgrest
import supabase_auth
from supabase_auth import errors as auth_errors

import supabase
from pagewarden import errors
from pagewarden.local.sign_in import users as local_users

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


_PAGE = 1000
_TIMEOUT_SECONDS = 30


class HostedUsers:
    """Does for a project what pagewarden.local.sign_in.users does for the embedded server."""

    def __init__(self, client: supabase.AsyncClient, *, site_url: str) -> None:
        self._client = client
        self._admin = client.auth.admin
        self._site_url = site_url

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Let somebody sign in; is_admin makes them one of HAC."""
        with _explained():
            made = await self._admin.create_user(
                {"email": email, "password": password, "email_confirm": True}
            )
        if is_admin:
            await self._add_role(made.user.id)

    async def set_password(self, email: str, password: str) -> None:
        """Give a new password, and sign the person out everywhere."""
        user = await self._get(email)
        with _explained():
            await self._admin.update_user_by_id(user.id, {"password": password})

    async def recovery_link(self, email: str) -> str:
        """Make a link that lets the person in once, to choose a password."""
        await self._get(email)
        with _explained():
            link = await self._admin.generate_link(
                {"type": "recovery", "email": email, "options": {"redirect_to": self._site_url}}
            )
        return link.properties.action_link

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Make somebody one of HAC, or not any more."""
        user = await self._get(email)
        if is_admin:
            await self._add_role(user.id)
            return
        with _explained():
            roles = self._client.table("user_roles").delete()
            await roles.eq("user_id", user.id).eq("role", "admin").execute()

    async def everybody(self) -> list[local_users.Person]:
        """List the people by address."""
        with _explained():
            roles = await self._client.table("user_roles").select("*").eq("role", "admin").execute()
        admins = {row["user_id"] for row in roles.data if isinstance(row, dict)}
        people = [
            local_users.Person(user.email, user.id in admins, user.created_at, user.last_sign_in_at)
            async for user in self._users()
            if user.email
        ]
        return sorted(people, key=lambda person: person.email)

    async def remove(self, email: str) -> None:
        """Let somebody sign in no more; their cases stay, for HAC to see."""
        user = await self._get(email)
        with _explained():
            await self._admin.delete_user(user.id)

    async def _add_role(self, user_id: str) -> None:
        with _explained():
            role = {"user_id": user_id, "role": "admin"}
            await self._client.table("user_roles").upsert(role).execute()

    async def _get(self, email: str) -> supabase_auth.User:
        wanted = local_users.normal_email(email)
        async for user in self._users():
            if user.email == wanted:
                return user
        raise local_users.unknown(email)

    async def _users(self) -> AsyncIterator[supabase_auth.User]:
        page = 1
        while True:
            with _explained():
                users = await self._admin.list_users(page=page, per_page=_PAGE)
            for user in users:
                yield user
            if len(users) < _PAGE:
                return
            page += 1


@contextlib.asynccontextmanager
async def opened(url: str, key: str, *, site_url: str) -> AsyncIterator[HostedUsers]:
    """Use the admin API of a project with its secret key."""
    async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as session:
        options = supabase.AsyncClientOptions(
            httpx_client=session, auto_refresh_token=False, postgrest_client_retry=False
        )
        yield HostedUsers(supabase.AsyncClient(url, key, options), site_url=site_url)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except auth_errors.AuthRetryableError as exc:
        raise errors.SignInAway(f"the Supabase project cannot be reached: {exc.message}") from exc
    except auth_errors.AuthApiError as exc:
        raise errors.SignInRefused(
            f"the Supabase project says: {exc.message}",
            status=exc.status,
            code=exc.code or "unexpected_failure",
        ) from exc
    except auth_errors.AuthError as exc:
        raise errors.SignInError(f"the Supabase project says: {exc.message}") from exc
    except postgrest.APIError as exc:
        raise errors.DatabaseError(
            exc.message or "the roles cannot be changed", sqlstate=exc.code, hint=exc.hint
        ) from exc
    except httpx.HTTPError as exc:
        raise errors.DatabaseAway(f"the Supabase project cannot be reached: {exc}") from exc
