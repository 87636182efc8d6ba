"""The settings of every process: environment variables and a .env file.

`fields` has the Settings class, `secrets` the checks of secrets. Unknown PAGEWARDEN_* names are an
error, and the secrets of loaded settings are kept out of logs. Begin with `load`.
"""

from __future__ import annotations

import os

from dotenv import dotenv_values
from pydantic import ValidationError

from pagewarden import errors
from pagewarden.settings.fields import (
    GPU_DOCUMENTS,
    GPU_SERVICE_URL,
    GPU_SILENCE_SECONDS,
    GPU_WAITING,
    HEARTBEAT_SECONDS,
    LISTEN_PORT,
    LOCK_SECONDS,
    PREFIX,
    SWEEP_SECONDS,
    UPLOAD_MAX_BYTES,
    Settings,
)
from pagewarden.telemetry import redaction

__all__ = [
    "GPU_DOCUMENTS",
    "GPU_SERVICE_URL",
    "GPU_SILENCE_SECONDS",
    "GPU_WAITING",
    "HEARTBEAT_SECONDS",
    "LISTEN_PORT",
    "LOCK_SECONDS",
    "PREFIX",
    "SWEEP_SECONDS",
    "UPLOAD_MAX_BYTES",
    "Settings",
    "load",
]


def load() -> Settings:
    """Load the settings and hide their secrets from logs; SettingsError says which is invalid."""
    _reject_unknown_names()
    try:
        settings = Settings()
    except ValidationError as exc:
        problems = (
            f"{'.'.join(map(str, problem['loc'])) or 'settings'}: {problem['msg']}"
            for problem in exc.errors()
        )
        raise errors.SettingsError("; ".join(problems)) from exc
    redaction.register_secrets(*settings.secrets())
    return settings


def _reject_unknown_names() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    present = {*os.environ, *dotenv_values(str(Settings.model_config["env_file"]))}
    unknown = sorted(name for name in present - known if name.startswith(PREFIX))
    if unknown:
        raise errors.SettingsError(
            f"unknown setting {', '.join(unknown)}; correct or remove it. Known settings: "
            f"{', '.join(sorted(known))}"
        )
