"""Keys of this installation, read or created; who has access to the metrics."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.settings.secrets import is_loopback_url, make_webhook_secret
from pagewarden.telemetry import redaction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import SecretStr

    from pagewarden.settings import Settings

_RANDOM_BYTES = 32
# Headers of proxies: a request that has one comes from elsewhere, even if the proxy is local.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class InstallationKeys:
    """The keys of an installation.

    Services call with the secret key; the publishable key alone gives no access. Tokens are signed
    with jwt_secret; a Supabase project that signs them with key pairs has none. Webhooks are signed
    with webhook_secret; without it, none are sent.
    """

    secret_key: str = field(repr=False)
    publishable_key: str | None
    jwt_secret: str | None = field(repr=False)
    webhook_secret: str | None = field(default=None, repr=False)


def load_keys(settings: Settings) -> InstallationKeys:
    """Read the keys; for the embedded server, create those that are neither set nor stored.

    The home of the embedded server must exist. From then on the keys are redacted in logs.
    """
    keys = _find_keys(settings)
    redaction.register_secrets(keys.secret_key, keys.jwt_secret, keys.webhook_secret)
    return keys


def load_secret_key(settings: Settings) -> str:
    """Read the key with which services call each other, where no other key is needed."""
    return _get_value(settings.supabase_key) or load_keys(settings).secret_key


def find_secret_key(settings: Settings) -> str | None:
    """Return the secret key if it is set, or stored and readable; never create it."""
    if settings.supabase_key or settings.supabase_url or settings.database_url:
        return _get_value(settings.supabase_key)
    try:
        return (settings.home / "secret_key").read_text("ascii").strip() or None
    except OSError:
        return None


def _find_keys(settings: Settings) -> InstallationKeys:
    if settings.supabase_url is not None:
        return InstallationKeys(
            _require_key(settings.supabase_key, "PAGEWARDEN_SUPABASE_KEY"),
            settings.publishable_key,
            _get_value(settings.jwt_secret),
            _get_value(settings.webhook_secret),
        )
    if settings.database_url is not None:
        # Other machines may use the same database, and must have the same keys.
        return InstallationKeys(
            _require_key(settings.supabase_key, "PAGEWARDEN_SUPABASE_KEY"),
            settings.publishable_key,
            _require_key(settings.jwt_secret, "PAGEWARDEN_JWT_SECRET"),
            _get_value(settings.webhook_secret),
        )
    home = settings.home
    return InstallationKeys(
        _get_value(settings.supabase_key)
        or _read_or_create(home / "secret_key", _generate_key("sb_secret_")),
        settings.publishable_key
        or _read_or_create(home / "publishable_key", _generate_key("sb_publishable_")),
        _get_value(settings.jwt_secret) or _read_or_create(home / "jwt_secret", _generate_key()),
        _get_value(settings.webhook_secret)
        or _read_or_create(home / "webhook_secret", make_webhook_secret()),
    )


def _get_value(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _require_key(secret: SecretStr | None, name: str) -> str:
    if secret is None:
        raise errors.SettingsError(
            f"{name} is not set; all programs that use this database must have the same one; "
            'generate it with "openssl rand -base64 48"'
        )
    return secret.get_secret_value()


def _generate_key(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(_RANDOM_BYTES)


def _read_or_create(path: Path, new_secret: str) -> str:
    """Read a secret that only its owner can read; if there is none, store the new one."""
    try:
        if not path.exists():
            _create_secret(path, new_secret)
        return path.read_text("ascii").strip()
    except OSError as exc:
        raise errors.LocalStackError(
            f"{path} cannot be used: {exc}; start as its owner, or set PAGEWARDEN_HOME to "
            "another folder"
        ) from exc


def _create_secret(path: Path, secret: str) -> None:
    # Linked into place when complete: of two programs the first one wins, and both read the same.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="ascii") as unfinished:
        unfinished.write(secret)
        unfinished.flush()
        os.fsync(unfinished.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(unfinished.name, path)


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """Who may read the metrics: requests with one of the keys; if `local`, also this machine."""

    keys: tuple[str, ...] = field(repr=False)
    local: bool = True

    @classmethod
    def from_settings(cls, settings: Settings, secret_key: str | None) -> MetricsAccess:
        """Allow the metrics token of the settings, and the secret key."""
        token = _get_value(settings.metrics_token)
        # With any other site URL there is a proxy in front, which may run on this machine.
        local = is_loopback_url(settings.site_url)
        return cls(tuple(filter(None, (token, secret_key))), local=local)

    def allows(self, client_address: str | None, headers: Mapping[str, str]) -> bool:
        """Tell whether a request is allowed; the names of its headers are in lower case."""
        return self._has_key(headers) or (self.local and _is_local(client_address, headers))

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # All keys are compared, in constant time.
        sent = given.strip().encode(errors="replace")
        matches = [hmac.compare_digest(sent, key.encode()) for key in self.keys]
        return scheme.lower() == "bearer" and any(matches)


def _is_local(client_address: str | None, headers: Mapping[str, str]) -> bool:
    """Tell whether a program of this machine sent the request, to this machine.

    A web page can make a local browser send requests; then the host is that of the page.
    """
    try:
        is_loopback = (
            client_address is not None and ipaddress.ip_address(client_address).is_loopback
        )
    except ValueError:
        is_loopback = False
    if not is_loopback or any(name in headers for name in _FORWARDED):
        return False
    return is_loopback_url(f"http://{headers.get('host', '')}")
