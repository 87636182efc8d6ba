"""One settings class for every process; unknown PAGEWARDEN_* names are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pagewarden import errors

PREFIX = "PAGEWARDEN_"
ENV_FILE = ".env"

HEARTBEAT_SECONDS = 5.0
LOCK_SECONDS = 20.0
SWEEP_SECONDS = 5.0


def default_home() -> Path:
    """Folder for the embedded server: /var/lib for root, the user's data folder otherwise.

    The server cannot run as root, so root's data is kept where another account can reach it
    without opening root's own folders.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/pagewarden")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "pagewarden"


class Settings(BaseSettings):
    """Everything an operator can set, from the environment or a .env file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=ENV_FILE, extra="ignore", populate_by_name=True, frozen=True
    )

    home: Path = Field(
        default_factory=default_home, description="Folder of the embedded server; kept private."
    )
    database_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DATABASE_URL", "DATABASE_URL"),
        description="Another Postgres instead of the embedded one (postgresql://…).",
    )
    supabase_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_URL", "SUPABASE_URL"),
        description="Talk to this Supabase project over HTTP instead of directly to Postgres.",
    )
    supabase_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_KEY", "SUPABASE_SERVICE_ROLE_KEY"),
        description="Secret key of that project.",
    )
    heartbeat_seconds: float = Field(
        default=HEARTBEAT_SECONDS, gt=0, description="How often a worker says that it is alive."
    )
    lock_seconds: float = Field(
        default=LOCK_SECONDS, gt=0, description="How long a lock lasts after the last heartbeat."
    )
    sweep_seconds: float = Field(
        default=SWEEP_SECONDS, gt=0, description="How often expired locks are looked for."
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.supabase_url and not self.supabase_key:
            raise ValueError("PAGEWARDEN_SUPABASE_URL needs PAGEWARDEN_SUPABASE_KEY beside it")
        if self.lock_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                "PAGEWARDEN_LOCK_SECONDS must be at least twice PAGEWARDEN_HEARTBEAT_SECONDS, "
                "or one slow heartbeat loses the document"
            )
        return self


def load() -> Settings:
    """Read the settings, or say which one is wrong and how to mend it."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    given = {*os.environ, *dotenv_values(ENV_FILE)}
    unknown = sorted(name for name in given if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise errors.SettingsError(
            f"unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
    try:
        return Settings()
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in exc.errors()
        )
        raise errors.SettingsError(problems) from exc
