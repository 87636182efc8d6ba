"""The settings of the engine, and what does not change them."""

from __future__ import annotations

import pydantic
import pytest

from pagewarden import errors, settings
from pagewarden.reading.gemini import Gemini
from tests.support import gemini_engine as engines
from tests.support import gemini_server as served


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
def test_setting_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The message names it."""
    monkeypatch.setenv(settings.PREFIX + name, value)

    with pytest.raises(errors.SettingsError, match=name.lower()):
        settings.load()


@pytest.mark.parametrize("name", ["PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_key_has_the_names_that_others_use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What Google's own tools already set need not be set again."""
    for other in ("PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, engines.KEY)

    assert settings.load().gemini_api_key == pydantic.SecretStr(engines.KEY)


def test_environment_of_google_does_not_change_what_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, server: served.GeminiServer, make: engines.Make
) -> None:
    """Another program's variables send no page elsewhere."""
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    server.script = [served.extracted()]

    engines.read(make())

    (request,) = server.requests
    assert request.headers["x-goog-api-key"] == engines.KEY
    assert request.path == "/v1beta/models/gemini-2.5-flash:generateContent"


def test_engine_made_of_nothing_is_made_as_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, server: served.GeminiServer
) -> None:
    """Whoever only knows its name can make it."""
    monkeypatch.setenv("PAGEWARDEN_GEMINI_API_KEY", engines.KEY)
    monkeypatch.setenv("PAGEWARDEN_GEMINI_BASE_URL", server.url)
    server.script = [served.extracted(served.line("a")), served.boosted()]

    gemini = Gemini()

    assert engines.texts(engines.read(gemini)) == ["a"]
    gemini.close()
