"""The keys of this installation: from the settings, or made once and kept in the home folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import errors, signatures
from pagewarden.telemetry import redaction

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

    from pagewarden.settings import Settings

_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens this installation.

    Our services call with the secret key. The publishable key opens nothing by itself. Tokens
    are signed with jwt_secret; it is None where a Supabase project signs them with key pairs.
    Webhooks are signed with webhook_secret; without one, none are sent.
    """

    secret_key: str = field(repr=False)
    publishable_key: str | None
    jwt_secret: str | None = field(repr=False)
    webhook_secret: str | None = field(default=None, repr=False)


def load(settings: Settings) -> Keys:
    """Read the keys; for the embedded server, make those that are neither set nor kept yet.

    Its home must be there, so it is started before. From then on they are in no log.
    """
    found = _find(settings)
    redaction.register_secrets(found.secret_key, found.jwt_secret, found.webhook_secret)
    return found


def _find(settings: Settings) -> Keys:
    if settings.supabase_url is not None:
        return Keys(
            _required(settings.supabase_key, "PAGEWARDEN_SUPABASE_KEY"),
            settings.publishable_key,
            _set(settings.jwt_secret),
            _set(settings.webhook_secret),
        )
    if settings.database_url is not None:
        # Other machines may use the same database, so they must agree on the keys.
        return Keys(
            _required(settings.supabase_key, "PAGEWARDEN_SUPABASE_KEY"),
            settings.publishable_key,
            _required(settings.jwt_secret, "PAGEWARDEN_JWT_SECRET"),
            _set(settings.webhook_secret),
        )
    return Keys(
        _set(settings.supabase_key) or _kept(settings.home / "secret_key", _random("sb_secret_")),
        settings.publishable_key
        or _kept(settings.home / "publishable_key", _random("sb_publishable_")),
        _set(settings.jwt_secret) or _kept(settings.home / "jwt_secret", _random()),
        _set(settings.webhook_secret)
        or _kept(settings.home / "webhook_secret", signatures.make_secret()),
    )


def find_secret_key(settings: Settings) -> str | None:
    """Give the secret key if it is set, or kept where we may read it; makes none."""
    if settings.supabase_key or settings.supabase_url or settings.database_url:
        return _set(settings.supabase_key)
    try:
        return (settings.home / "secret_key").read_text("ascii").strip() or None
    except OSError:
        return None


def secret_key(settings: Settings) -> str:
    """Read the key with which our services call each other, where nothing else is needed."""
    return _set(settings.supabase_key) or load(settings).secret_key


def _set(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _required(secret: SecretStr | None, name: str) -> str:
    if secret is None:
        raise errors.SettingsError(
            f"{name} is not set, and everybody who uses this database needs the same one; "
            'make it with "openssl rand -base64 48"'
        )
    return secret.get_secret_value()


def _random(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(_RANDOM_BYTES)


def _kept(path: Path, new: str) -> str:
    """Read a secret that only its owner can read; when there is none, keep the new one."""
    try:
        if not path.exists():
            _keep(path, new)
        return path.read_text("ascii").strip()
    except OSError as exc:
        raise errors.LocalStackError(
            f"{path} cannot be used: {exc}; start as its owner, or set PAGEWARDEN_HOME to "
            "another folder"
        ) from exc


def _keep(path: Path, secret: str) -> None:
    # Linked into place when complete: of two at once the first one wins, and both read the same.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="ascii") as unfinished:
        unfinished.write(secret)
        unfinished.flush()
        os.fsync(unfinished.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(unfinished.name, path)
