"""The settings of the engine."""

from __future__ import annotations

import pydantic
import pytest

from pagewarden import errors, settings
from pagewarden.ocr.engines.gemini.engine import GeminiEngine
from tests.support import gemini_engine as engines
from tests.support import gemini_server


def test_key_is_not_shown(make: engines.Make) -> None:
    """Options may be printed."""
    assert engines.KEY not in repr(make()._options)  # noqa: SLF001  # nothing else shows them


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GEMINI_MODEL", "gemini?x=1"),
        ("GEMINI_MODEL", "../models"),
        ("GEMINI_BASE_URL", "localhost"),
        ("GEMINI_BASE_URL", "file:///etc"),
        ("GEMINI_REQUESTS_PER_MINUTE", "0"),
        ("GEMINI_TIMEOUT_SECONDS", "0"),
        ("GEMINI_PATIENCE_SECONDS", "-1"),
        ("GEMINI_MAX_RETRIES", "-1"),
        ("GEMINI_INPUT_PRICE", "-0.1"),
        ("GEMINI_OUTPUT_PRICE", "free"),
    ],
)
def test_invalid_setting_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The message names it."""
    monkeypatch.setenv(settings.PREFIX + name, value)

    with pytest.raises(errors.SettingsError, match=name.lower()):
        settings.load()


@pytest.mark.parametrize("name", ["PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_key_may_have_the_names_of_google(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Variables of Google's own tools are accepted."""
    for other in ("PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, engines.KEY)

    assert settings.load().gemini_api_key == pydantic.SecretStr(engines.KEY)


def test_google_variables_do_not_override_settings(
    monkeypatch: pytest.MonkeyPatch, server: gemini_server.GeminiServer, make: engines.Make
) -> None:
    """Variables of other programs do not change the URL."""
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    server.script = [gemini_server.extraction_reply()]

    engines.read_page(make())

    (request,) = server.requests
    assert request.headers["x-goog-api-key"] == engines.KEY
    assert request.path == "/v1beta/models/gemini-2.5-flash:generateContent"


def test_engine_without_options_loads_the_settings(
    monkeypatch: pytest.MonkeyPatch, server: gemini_server.GeminiServer
) -> None:
    """The name of the engine is sufficient."""
    monkeypatch.setenv("PAGEWARDEN_GEMINI_API_KEY", engines.KEY)
    monkeypatch.setenv("PAGEWARDEN_GEMINI_BASE_URL", server.url)
    server.script = [
        gemini_server.extraction_reply(gemini_server.line("a")),
        gemini_server.boost_reply(),
    ]

    gemini = GeminiEngine()

    assert engines.list_texts(engines.read_page(gemini)) == ["a"]
    gemini.close()
