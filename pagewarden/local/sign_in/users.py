"""The people who can sign in: who they are, adding, changing and removing them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pagewarden import errors
from pagewarden.local.sign_in import clock, passwords, statements, stores

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator, Callable, Mapping

_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")
EMAIL_LENGTH = 254

RECOVERY_LASTS = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class User:
    """A row of auth.users, with the names that Supabase Auth shows."""

    id: uuid.UUID
    email: str | None
    encrypted_password: str | None = field(repr=False)
    app_metadata: Mapping[str, Any]
    user_metadata: Mapping[str, Any]
    email_confirmed_at: dt.datetime | None
    last_sign_in_at: dt.datetime | None
    banned_until: dt.datetime | None
    created_at: dt.datetime
    updated_at: dt.datetime

    def is_banned(self, now: dt.datetime) -> bool:
        """Tell whether the person is kept out for the time being."""
        return self.banned_until is not None and self.banned_until > now


@dataclass(frozen=True, slots=True)
class Person:
    """What a list of people shows of each."""

    email: str
    is_admin: bool
    created_at: dt.datetime
    last_sign_in_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class _Added:
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Users:
    """Everybody in auth.users; for operators, who need no password to do these things."""

    store: stores.Store
    passwords: passwords.Passwords
    site_url: str
    now: Callable[[], dt.datetime]

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Let somebody sign in; is_admin makes them one of HAC."""
        params = {
            "email": normal_email(email),
            "encrypted_password": await self.passwords.encrypt(password),
            "is_admin": is_admin,
            "now": self.now(),
        }
        if await self.store.one(_Added, statements.ADD_USER, params) is None:
            raise errors.SignInRefused(
                f"{email} can sign in already; 'pagewarden user reset' gives a new password",
                status=422,
                code="email_exists",
            )

    async def add_first_admin(self, email: str) -> str | None:
        """Add an administrator where nobody can sign in yet, and return the new password."""
        if await self.everybody():
            return None
        password = passwords.generate()
        try:
            await self.add(email, password, is_admin=True)
        except errors.SignInRefused:
            return None  # another program that started at the same time was quicker
        return password

    async def set_password(self, email: str, password: str) -> None:
        """Give a new password, and sign the person out everywhere."""
        encrypted = await self.passwords.encrypt(password)
        user = await self._get(email)
        params = {"id": user.id, "encrypted_password": encrypted, "kept": None, "now": self.now()}
        await self.store.change(statements.SET_PASSWORD, params)

    async def recovery_link(self, email: str) -> str:
        """Make a link that lets the person in once, within an hour, to choose a password."""
        link = await self.start_recovery(normal_email(email), pause=dt.timedelta(0))
        if link is None:
            raise unknown(email)
        return link

    async def start_recovery(self, email: str, *, pause: dt.timedelta) -> str | None:
        """Make the link, unless nobody has the address or the last link is younger than pause."""
        token, now = secrets.token_urlsafe(32), self.now()
        params = {"email": email, "hash": hashed(token), "now": now, "last_before": now - pause}
        if not await self.store.change(statements.START_RECOVERY, params):
            return None
        return f"{self.site_url}/auth/v1/verify?{urlencode({'token': token, 'type': 'recovery'})}"

    async def use_recovery(self, token: str, email: str | None) -> User | None:
        """Give the person a token was made for, once and while it lasts; email must fit."""
        now = self.now()
        params = {
            "hash": hashed(token), "email": email, "now": now, "sent_after": now - RECOVERY_LASTS
        }  # fmt: skip
        return await self.store.one(User, statements.USE_RECOVERY, params)

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Make somebody one of HAC, or not any more."""
        user = await self._get(email)
        statement = statements.ADD_ROLE if is_admin else statements.TAKE_ROLE
        await self.store.change(statement, {"email": user.email})

    async def everybody(self) -> list[Person]:
        """List the people by address."""
        return await self.store.all(Person, statements.LIST_PEOPLE, {})

    async def remove(self, email: str) -> None:
        """Let somebody sign in no more; their cases stay, for HAC to see."""
        if not await self.store.change(statements.REMOVE_USER, {"email": normal_email(email)}):
            raise unknown(email)

    async def find(self, email: str) -> User | None:
        """Find somebody by a normal address."""
        return await self.store.one(User, statements.FIND_USER, {"email": email})

    async def get(self, user_id: uuid.UUID) -> User | None:
        """Find somebody by id."""
        return await self.store.one(User, statements.GET_USER, {"id": user_id})

    async def _get(self, email: str) -> User:
        user = await self.find(normal_email(email))
        if user is None:
            raise unknown(email)
        return user


@contextlib.asynccontextmanager
async def opened(url: str, *, site_url: str) -> AsyncIterator[Users]:
    """Use the people of the database of this URL; refuse one where Supabase Auth is at home."""
    store = stores.Store(url)
    try:
        await store.require_home()
        hashing = passwords.Passwords(passwords.usual_hasher())
        yield Users(store, hashing, site_url, clock.utc_now)
    finally:
        await store.aclose()


def unknown(email: str) -> errors.SignInRefused:
    """Make the error that nobody has this address."""
    return errors.SignInRefused(
        f"nobody signs in as {email}; 'pagewarden user list' shows who does",
        status=404,
        code="user_not_found",
    )


def normal_email(email: str) -> str:
    """Give the address as it is stored; refuse what is none."""
    normal = email.strip().lower()
    if len(normal) > EMAIL_LENGTH or not _EMAIL.fullmatch(normal):
        raise errors.SignInRefused(
            f"{email[:EMAIL_LENGTH]!r} is no e-mail address; write it like ada@example.org",
            status=400,
            code="email_address_invalid",
        )
    return normal


def hashed(token: str) -> str:
    """Give what is stored of a recovery token, which cannot be used to sign in."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
