"""The keys of an installation: set, or made once and kept."""

from __future__ import annotations

import concurrent.futures
import os
import stat
from typing import TYPE_CHECKING, Any

import jwt
import pytest

from pagewarden import errors, settings
from pagewarden.auth import keys
from pagewarden.settings import secrets

if TYPE_CHECKING:
    from pathlib import Path

STRONG = "Zm9yIHRoaXMgdGVzdCBvbmx5LCBvZiBjb3Vyc2U"
SIGNING = f"whsec_{STRONG}="
PROJECT = "https://project.example.org"
# What the Supabase CLI, and the example of a self-hosted installation, start with.
DEFAULTS = [
    "super-secret-jwt-token-with-at-least-32-characters-long",
    "your-super-secret-jwt-token-with-at-least-32-characters-long",
]
DEFAULT_KEY = jwt.encode({"iss": "supabase-demo", "role": "service_role"}, DEFAULTS[0], "HS256")


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start without any setting, in a folder without a .env file."""
    for name in os.environ:
        if name.startswith((settings.PREFIX, "SUPABASE_", "DATABASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGEWARDEN_HOME", str(tmp_path))


def loaded(monkeypatch: pytest.MonkeyPatch, **values: str) -> keys.InstallationKeys:
    """Load the keys with these settings."""
    for name, value in values.items():
        monkeypatch.setenv(settings.PREFIX + name.upper(), value)
    return keys.load_keys(settings.load())


def test_keys_of_the_embedded_server_are_made_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are strong, look like those of Supabase, and only their owner can read them."""
    first, second = loaded(monkeypatch), loaded(monkeypatch)

    assert first == second
    assert first.secret_key.startswith("sb_secret_")
    assert (first.publishable_key or "").startswith("sb_publishable_")
    assert first.jwt_secret
    assert first.webhook_secret
    assert first.webhook_secret.startswith("whsec_")
    assert len(secrets.decode_webhook_secret(first.webhook_secret)) == 32
    for made in (first.secret_key, first.jwt_secret, first.webhook_secret):
        assert not secrets.is_weak(made)
        assert made not in repr(first)
    files = list(tmp_path.iterdir())
    names = {"secret_key", "publishable_key", "jwt_secret", "webhook_secret"}
    assert {file.name for file in files} == names
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_programs_that_start_at_once_agree_on_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is first makes them, and everybody reads the same."""
    chosen = settings.load()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        made = {pool.submit(keys.load_keys, chosen) for _ in range(32)}

    assert len({future.result() for future in made}) == 1
    assert loaded(monkeypatch) in {future.result() for future in made}


def test_keys_that_are_set_come_before_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who has keys uses them."""
    found = loaded(
        monkeypatch,
        jwt_secret=STRONG,
        supabase_key=STRONG[::-1],
        publishable_key="sb_publishable_x",
        webhook_secret=SIGNING,
    )

    assert found == keys.InstallationKeys(STRONG[::-1], "sb_publishable_x", STRONG, SIGNING)


@pytest.mark.parametrize("secret", [STRONG, "whsec_" + STRONG, STRONG + "=-"])
def test_webhook_secret_that_receivers_could_not_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """Their libraries want base64; the message says how to make some, and does not show it."""
    with pytest.raises(errors.SettingsError, match=r"WEBHOOK_SECRET must be base64") as caught:
        loaded(monkeypatch, webhook_secret=secret)

    assert STRONG not in str(caught.value)


def test_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to do."""
    with pytest.raises(errors.LocalStackError, match="PAGEWARDEN_HOME"):
        loaded(monkeypatch, home="/proc/nowhere")


@pytest.mark.parametrize("missing", ["jwt_secret", "supabase_key"])
def test_shared_database_wants_shared_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    """Keys made on one machine would not count on the next one."""
    given = {"jwt_secret": STRONG, "supabase_key": STRONG, "database_url": "postgresql://x/y"}
    del given[missing]

    with pytest.raises(errors.SettingsError, match=f"PAGEWARDEN_{missing.upper()}"):
        loaded(monkeypatch, **given)

    assert list(tmp_path.iterdir()) == []


def test_project_has_its_own_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is made for it; without a secret its tokens are checked with public keys."""
    found = loaded(monkeypatch, supabase_url=PROJECT, supabase_key="sb_secret_x")

    assert found == keys.InstallationKeys("sb_secret_x", None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("secret", [*DEFAULTS, "short", "a" * 64, "abcabc" * 10])
@pytest.mark.parametrize("url", ["", PROJECT])
def test_default_or_weak_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, secret: str, url: str
) -> None:
    """The message names it, says how to make a better one, and does not show it."""
    if url:
        monkeypatch.setenv("PAGEWARDEN_SUPABASE_URL", url)
        monkeypatch.setenv("PAGEWARDEN_SUPABASE_KEY", "sb_secret_x")
    with pytest.raises(errors.SettingsError, match=r"PAGEWARDEN_JWT_SECRET.*openssl") as caught:
        loaded(monkeypatch, jwt_secret=secret)

    assert secret not in str(caught.value)


@pytest.mark.parametrize("key", [DEFAULT_KEY, "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz"])
def test_default_key_is_refused_for_a_project(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Everybody has it."""
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_SUPABASE_KEY"):
        loaded(monkeypatch, supabase_url=PROJECT, supabase_key=key)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_defaults_are_accepted_for_a_stack_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """The CLI of Supabase gives no others, and nobody else can reach it."""
    values: dict[str, Any] = {"jwt_secret": DEFAULTS[0], "supabase_key": DEFAULT_KEY}

    found = loaded(monkeypatch, supabase_url=f"http://{host}:54321", **values)

    assert found.secret_key == DEFAULT_KEY


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org", "https://example.org/x", " "])
def test_site_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Links for people lead there."""
    with pytest.raises(errors.SettingsError, match="site_url"):
        loaded(monkeypatch, site_url=url)
