"""Passwords: kept as argon2 hashes, compared in threads, never written anywhere."""

from __future__ import annotations

import asyncio
import os
import secrets

import argon2

from pagewarden import errors

MIN_LENGTH = 12
MAX_LENGTH = 1000

# What OWASP recommends for argon2id with little memory (KiB): a sign-in takes some 30 ms, and
# many at once do not exhaust the machine.
_TIME_COST = 2
_MEMORY_KIB = 19_456
_PARALLELISM = 1

# Without characters that are easily taken for each other.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def usual_hasher() -> argon2.PasswordHasher:
    """Make the hasher with the costs that are right for a server."""
    return argon2.PasswordHasher(_TIME_COST, _MEMORY_KIB, _PARALLELISM)


class Passwords:
    """Hashes and compares, on as many cores as there are."""

    def __init__(self, hasher: argon2.PasswordHasher) -> None:
        self._hasher = hasher
        self._slots = asyncio.Semaphore(os.cpu_count() or 1)
        self._of_nobody = hasher.hash(secrets.token_urlsafe())

    async def encrypt(self, password: str) -> str:
        """Make the hash of a password that is strong enough."""
        require_strong(password)
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def match(self, encrypted: str | None, password: str) -> bool:
        """Compare; where there is nothing to compare with, it takes as long and is wrong."""
        async with self._slots:
            right = await asyncio.to_thread(self._verify, encrypted or self._of_nobody, password)
        return right and encrypted is not None

    def _verify(self, encrypted: str, password: str) -> bool:
        try:
            return self._hasher.verify(encrypted, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


def require_strong(password: str) -> None:
    """Refuse a password that is too short to withstand guessing."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise errors.SignInRefused(
            f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters; choose a longer one"
            if len(password) < MIN_LENGTH
            else f"a password has at most {MAX_LENGTH} characters; choose a shorter one",
            status=422,
            code="weak_password",
            reasons=("length",),
        )


def generate() -> str:
    """Draw a password that can be read out: four groups of five, 100 bits."""
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))
    return "-".join(groups)
