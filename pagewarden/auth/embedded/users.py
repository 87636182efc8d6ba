"""Users in auth.users, argon2 password hashes, recovery.

Passwords are hashed and compared in threads, and never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import os
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import argon2

from pagewarden import errors
from pagewarden.auth.embedded.store import (
    ADD_ROLE,
    ADD_USER,
    FIND_USER,
    GET_USER,
    LIST_USERS,
    REMOVE_ROLE,
    REMOVE_USER,
    SET_PASSWORD,
    START_RECOVERY,
    USE_RECOVERY,
    AuthDatabase,
    utc_now,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator, Callable, Mapping

MIN_PASSWORD_LENGTH = 12
MAX_PASSWORD_LENGTH = 1000

# Recommended by OWASP for argon2id with little memory (KiB): a sign-in takes about 30 ms, and
# concurrent ones do not exhaust the machine.
_TIME_COST = 2
_MEMORY_KIB = 19_456
_PARALLELISM = 1

# Without characters that are easily confused.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"

_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")
MAX_EMAIL_LENGTH = 254

RECOVERY_VALIDITY = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class User:
    """A row of auth.users, with the field names of Supabase Auth."""

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
        """Tell whether the user is currently banned."""
        return self.banned_until is not None and self.banned_until > now


@dataclass(frozen=True, slots=True)
class UserSummary:
    """An entry of the list of users."""

    email: str
    is_admin: bool
    created_at: dt.datetime
    last_sign_in_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class _AddedUser:
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class UserManager:
    """Manages the users in auth.users; for operators, so no password is required."""

    store: AuthDatabase
    passwords: ThreadedPasswordHasher
    site_url: str
    now: Callable[[], dt.datetime]

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Add a user; `is_admin` makes them a member of HAC."""
        params = {
            "email": normalize_email(email),
            "encrypted_password": await self.passwords.hash_password(password),
            "is_admin": is_admin,
            "now": self.now(),
        }
        if await self.store.fetch_one(_AddedUser, ADD_USER, params) is None:
            raise errors.SignInRejected(
                f"{email} already exists; 'pagewarden user reset' sets a new password",
                status=422,
                code="email_exists",
            )

    async def add_first_admin(self, email: str) -> str | None:
        """Add an administrator if there are no users yet, and return the new password."""
        if await self.list_all():
            return None
        password = generate_password()
        try:
            await self.add(email, password, is_admin=True)
        except errors.SignInRejected:
            return None  # another program that started at the same time was first
        return password

    async def set_password(self, email: str, password: str) -> None:
        """Set a new password, and end all sessions of the user."""
        encrypted = await self.passwords.hash_password(password)
        user = await self._get(email)
        params = {"id": user.id, "encrypted_password": encrypted, "kept": None, "now": self.now()}
        await self.store.change(SET_PASSWORD, params)

    async def create_recovery_link(self, email: str) -> str:
        """Create a link to set a new password, valid once and for an hour."""
        link = await self.start_recovery(normalize_email(email), min_interval=dt.timedelta(0))
        if link is None:
            raise unknown_user_error(email)
        return link

    async def start_recovery(self, email: str, *, min_interval: dt.timedelta) -> str | None:
        """Create the link; None if the user does not exist, or got a link within `min_interval`."""
        token, now = secrets.token_urlsafe(32), self.now()
        params = {
            "email": email,
            "hash": hash_token(token),
            "now": now,
            "last_before": now - min_interval,
        }
        if not await self.store.change(START_RECOVERY, params):
            return None
        return f"{self.site_url}/auth/v1/verify?{urlencode({'token': token, 'type': 'recovery'})}"

    async def use_recovery(self, token: str, email: str | None) -> User | None:
        """Use up a recovery token, and return its user; None if it is invalid, expired or used.

        An email, if given, must be that of the user.
        """
        now = self.now()
        params = {
            "hash": hash_token(token),
            "email": email,
            "now": now,
            "sent_after": now - RECOVERY_VALIDITY,
        }
        return await self.store.fetch_one(User, USE_RECOVERY, params)

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Add a user to HAC (role admin), or remove them."""
        user = await self._get(email)
        statement = ADD_ROLE if is_admin else REMOVE_ROLE
        await self.store.change(statement, {"email": user.email})

    async def list_all(self) -> list[UserSummary]:
        """Return all users, sorted by email address."""
        return await self.store.fetch_all(UserSummary, LIST_USERS, {})

    async def remove(self, email: str) -> None:
        """Remove a user; their cases remain, visible to HAC."""
        if not await self.store.change(REMOVE_USER, {"email": normalize_email(email)}):
            raise unknown_user_error(email)

    async def find(self, email: str) -> User | None:
        """Return the user with a normalized email address, or None."""
        return await self.store.fetch_one(User, FIND_USER, {"email": email})

    async def get(self, user_id: uuid.UUID) -> User | None:
        """Return the user with an id, or None."""
        return await self.store.fetch_one(User, GET_USER, {"id": user_id})

    async def _get(self, email: str) -> User:
        user = await self.find(normalize_email(email))
        if user is None:
            raise unknown_user_error(email)
        return user


@contextlib.asynccontextmanager
async def open_users(url: str, *, site_url: str) -> AsyncIterator[UserManager]:
    """Connect to the users of an embedded stack; raise SettingsError for a Supabase project."""
    store = AuthDatabase(url)
    try:
        await store.require_embedded_sign_in()
        yield UserManager(store, ThreadedPasswordHasher(make_hasher()), site_url, utc_now)
    finally:
        await store.aclose()


class ThreadedPasswordHasher:
    """Hashes and verifies passwords in threads, at most one per core."""

    def __init__(self, hasher: argon2.PasswordHasher) -> None:
        self._hasher = hasher
        self._slots = asyncio.Semaphore(os.cpu_count() or 1)
        self._dummy_hash = hasher.hash(secrets.token_urlsafe())

    async def hash_password(self, password: str) -> str:
        """Return the hash of a password; raise SignInRejected if it is too weak."""
        require_strong_password(password)
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def is_correct(self, password_hash: str | None, password: str) -> bool:
        """Tell whether a password is right; without a hash it is wrong, and takes as long."""
        async with self._slots:
            is_right = await asyncio.to_thread(
                self._verify, password_hash or self._dummy_hash, password
            )
        return is_right and password_hash is not None

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


def make_hasher() -> argon2.PasswordHasher:
    """Return a hasher with costs for a server."""
    return argon2.PasswordHasher(_TIME_COST, _MEMORY_KIB, _PARALLELISM)


def require_strong_password(password: str) -> None:
    """Raise SignInRejected for a password that is too short or too long."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise errors.SignInRejected(
            f"a password must have {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters; "
            "choose a longer one"
            if len(password) < MIN_PASSWORD_LENGTH
            else f"a password may have up to {MAX_PASSWORD_LENGTH} characters; use a shorter one",
            status=422,
            code="weak_password",
            reasons=("length",),
        )


def generate_password() -> str:
    """Return a random password that is easy to type: four groups of five, 100 bits."""
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))
    return "-".join(groups)


def normalize_email(email: str) -> str:
    """Return the address as it is stored; raise SignInRejected if it is invalid."""
    normal = email.strip().lower()
    if len(normal) > MAX_EMAIL_LENGTH or not _EMAIL.fullmatch(normal):
        raise errors.SignInRejected(
            f"{email[:MAX_EMAIL_LENGTH]!r} is not a valid email address; expected one such as "
            "ada@example.org",
            status=400,
            code="email_address_invalid",
        )
    return normal


def hash_token(token: str) -> str:
    """Return the hash of a recovery token, the only form in which it is stored."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def unknown_user_error(email: str) -> errors.SignInRejected:
    """Return the error for an email address without a user."""
    return errors.SignInRejected(
        f"there is no user {email}; 'pagewarden user list' lists all users",
        status=404,
        code="user_not_found",
    )
