"""Loading settings; unknown names and invalid values are errors."""

from __future__ import annotations

import os
from pathlib import Path

import pydantic
import pytest

from pagewarden import database, errors, settings

URL = "postgresql://somebody:hidden@db.example.org/postgres"


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start without settings, in a folder without a .env file."""
    for name in os.environ:
        if name.startswith((settings.PREFIX, "SUPABASE_", "DATABASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_defaults_are_enough_to_start() -> None:
    """The embedded server needs no settings."""
    loaded = settings.load()

    assert loaded.database_url is None
    assert loaded.supabase_url is None
    assert (loaded.heartbeat_seconds, loaded.lock_seconds, loaded.sweep_seconds) == (5, 20, 5)


def test_unknown_name_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typo is an error."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_ULR", URL)

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_DATABASE_ULR") as caught:
        settings.load()

    assert "PAGEWARDEN_DATABASE_URL" in str(caught.value)


def test_environment_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """For settings of every type."""
    values = {
        "HOME": "/srv/pagewarden",
        "DATABASE_URL": URL,
        "SUPABASE_URL": "https://project.example.org",
        "SUPABASE_KEY": "sb_secret_x",
        "HEARTBEAT_SECONDS": "1.5",
        "LOCK_SECONDS": "6",
        "SWEEP_SECONDS": "2",
    }
    for name, value in values.items():
        monkeypatch.setenv(settings.PREFIX + name, value)

    loaded = settings.load()

    assert loaded.home == Path("/srv/pagewarden")
    assert loaded.database_url == pydantic.SecretStr(URL)
    assert loaded.supabase_url == "https://project.example.org"
    assert loaded.supabase_key == pydantic.SecretStr("sb_secret_x")
    assert (loaded.heartbeat_seconds, loaded.lock_seconds, loaded.sweep_seconds) == (1.5, 6, 2)


def test_names_of_the_platform_are_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that Supabase and others set need not be set again."""
    monkeypatch.setenv("DATABASE_URL", URL)
    monkeypatch.setenv("SUPABASE_URL", "https://project.example.org")
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_x")

    loaded = settings.load()

    assert loaded.database_url == pydantic.SecretStr(URL)
    assert loaded.supabase_url == "https://project.example.org"
    assert loaded.supabase_key == pydantic.SecretStr("sb_secret_x")


def test_own_name_takes_precedence_over_its_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """DATABASE_URL may belong to another program on the same machine."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://other.example.org/x")
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", URL)

    assert settings.load().database_url == pydantic.SecretStr(URL)


def test_env_file_is_read(tmp_path: Path) -> None:
    """A .env file in the working folder is like the environment."""
    (tmp_path / ".env").write_text(f"PAGEWARDEN_DATABASE_URL={URL}\nOTHER_PROGRAM=x\n")

    assert settings.load().database_url == pydantic.SecretStr(URL)


def test_supabase_url_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the missing setting."""
    monkeypatch.setenv("PAGEWARDEN_SUPABASE_URL", "https://project.example.org")

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_SUPABASE_KEY"):
        settings.load()


@pytest.mark.parametrize(("heartbeat", "lock"), [("5", "9.9"), ("20", "20")])
def test_lock_shorter_than_two_heartbeats_is_refused(
    monkeypatch: pytest.MonkeyPatch, heartbeat: str, lock: str
) -> None:
    """One late heartbeat must not lose the document."""
    monkeypatch.setenv("PAGEWARDEN_HEARTBEAT_SECONDS", heartbeat)
    monkeypatch.setenv("PAGEWARDEN_LOCK_SECONDS", lock)

    with pytest.raises(errors.SettingsError, match="at least twice"):
        settings.load()


def test_lock_of_exactly_two_heartbeats_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound itself is allowed."""
    monkeypatch.setenv("PAGEWARDEN_HEARTBEAT_SECONDS", "10")

    assert settings.load().lock_seconds == 20


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_invalid_interval_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The message names the setting."""
    monkeypatch.setenv("PAGEWARDEN_SWEEP_SECONDS", value)

    with pytest.raises(errors.SettingsError, match="sweep_seconds"):
        settings.load()


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the repr of settings nor an error has a password."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", URL)

    shown = repr(settings.load())
    monkeypatch.setenv("PAGEWARDEN_LOCK_SECONDS", "1")
    with pytest.raises(errors.SettingsError) as caught:
        settings.load()

    assert "hidden" not in shown + str(caught.value)


def test_settings_cannot_be_changed_afterwards() -> None:
    """A process has one set of settings."""
    with pytest.raises(pydantic.ValidationError):
        settings.load().lock_seconds = 1


async def test_connect_without_any_database_is_refused() -> None:
    """The message names the settings."""
    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_DATABASE_URL"):
        await database.connect(settings.load())


async def test_connect_to_an_invalid_url_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message shows the form of a URL, without the password."""
    monkeypatch.setenv("DATABASE_URL", "mysql://somebody:hidden@db.example.org/x")

    with pytest.raises(errors.SettingsError, match="postgresql://") as caught:
        await database.connect(settings.load())

    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_supabase_project_takes_precedence_over_a_database_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With both set, calls use HTTP."""
    monkeypatch.setenv("DATABASE_URL", "not even a URL")
    monkeypatch.setenv("SUPABASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", "sb_secret_x")

    async with await database.connect(settings.load()) as db:
        with pytest.raises(errors.DatabaseUnavailable):
            await db.rpc("ping")


def test_unknown_setting_in_the_env_file_is_refused() -> None:
    """A typo in .env is an error too."""
    Path(".env").write_text("PAGEWARDEN_LOCK_SECOND=30\n")

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_LOCK_SECOND"):
        settings.load()
