"""Engine gemini: read pages with Google's Gemini API. This module has its settings.

`engine` has GeminiEngine, which extracts the lines of a page and then boosts their text; `client`
sends the requests. Pages are decoded in the sandbox; only the API's responses are parsed here.
The settings do not import the other modules, so that all processes can load them quickly.
"""

from __future__ import annotations

import os
from typing import Self

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, HttpUrl, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from pagewarden.errors import SettingsError
from pagewarden.telemetry import redaction

MODEL = "gemini-2.5-flash"
BASE_URL = HttpUrl("https://generativelanguage.googleapis.com/")
REQUESTS_PER_MINUTE = 60
TIMEOUT_SECONDS = 120.0
PAGE_TIMEOUT_SECONDS = 300.0
MAX_RETRIES = 4
INPUT_PRICE = 0.30  # for MODEL
OUTPUT_PRICE = 2.50

_ENV_PREFIX = "PAGEWARDEN_"


class GeminiSettings(BaseSettings):
    """The PAGEWARDEN_GEMINI_* settings, from the environment or a .env file."""

    model_config = SettingsConfigDict(
        env_prefix=_ENV_PREFIX,
        env_file=".env",
        extra="ignore",
        populate_by_name=True,
        frozen=True,
        hide_input_in_errors=True,  # the input may be a key
    )

    gemini_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"
        ),
        description="API key for the engine `gemini`.",
    )
    gemini_model: str = Field(
        default=MODEL,
        pattern=r"^(models/|tunedModels/)?[\w-]+(\.[\w-]+)*$",
        description="Gemini model that reads pages.",
    )
    gemini_base_url: HttpUrl = Field(
        default=BASE_URL, description="URL of the Gemini API, or of a proxy for it."
    )
    gemini_extract_prompt: str | None = Field(
        default=None, description="Prompt that replaces the built-in one for reading a page."
    )
    gemini_boost_prompt: str | None = Field(
        default=None, description="Prompt that replaces the built-in one for correcting a page."
    )
    gemini_requests_per_minute: int = Field(
        default=REQUESTS_PER_MINUTE,
        gt=0,
        description="Maximum requests per minute and process; a page takes two requests.",
    )
    gemini_timeout_seconds: float = Field(
        default=TIMEOUT_SECONDS, gt=0, description="Timeout for one request."
    )
    gemini_patience_seconds: float = Field(
        default=PAGE_TIMEOUT_SECONDS,
        gt=0,
        description="Timeout for one page, including waits and retries.",
    )
    gemini_max_retries: int = Field(
        default=MAX_RETRIES, ge=0, description="Maximum retries of a failed request."
    )
    gemini_input_price: float = Field(
        default=INPUT_PRICE,
        ge=0,
        description="Price per million input tokens in US dollars; depends on the model.",
    )
    gemini_output_price: float = Field(
        default=OUTPUT_PRICE,
        ge=0,
        description="Price per million output tokens in US dollars; depends on the model.",
    )

    @classmethod
    def load(cls) -> Self:
        """Load the settings and hide the key from logs; SettingsError says which is invalid.

        Servers load the settings of all parts first; `pagewarden ocr` and the library only these.
        """
        known = {_ENV_PREFIX + name.upper() for name in cls.model_fields}
        present = {*os.environ, *dotenv_values(str(cls.model_config["env_file"]))}
        unknown = sorted(
            name for name in present - known if name.startswith(f"{_ENV_PREFIX}GEMINI_")
        )
        if unknown:
            raise SettingsError(
                f"unknown setting {', '.join(unknown)}; correct or remove it. Known settings: "
                f"{', '.join(sorted(known))}"
            )
        try:
            settings = cls()
        except ValidationError as exc:
            problems = (f"{problem['loc'][0]}: {problem['msg']}" for problem in exc.errors())
            raise SettingsError("; ".join(problems)) from exc
        if settings.gemini_api_key:
            redaction.register_secrets(settings.gemini_api_key.get_secret_value())
        return settings
