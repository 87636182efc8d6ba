"""A fake server of Gemini's API per test, and engines that call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import certifi
import pytest

from tests.support import gemini_engine as engines
from tests.support import gemini_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagewarden.ocr.engines.gemini.engine import GeminiEngine


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, one_authority: Path) -> None:
    """Call loopback without a proxy, and load only one certificate."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one certificate: tests do not use TLS, and the full list takes 0.15 s per engine."""
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    path = tmp_path_factory.mktemp("authority") / "one.pem"
    path.write_text(first + end + "\n")
    return path


@pytest.fixture
def server() -> Iterator[gemini_server.GeminiServer]:
    """Run a server; every reply of its script must have been requested."""
    with gemini_server.run_server() as gemini:
        yield gemini
    assert gemini.script == []


@pytest.fixture
def clock() -> engines.FakeClock:
    """A clock that only waits advance."""
    return engines.FakeClock()


@pytest.fixture
def make(server: gemini_server.GeminiServer, clock: engines.FakeClock) -> Iterator[engines.Make]:
    """Return a factory of engines that call the server; close them afterwards."""
    gemini_engines = []

    def make(**changes: Any) -> GeminiEngine:
        gemini_engines.append(engines.make_engine(server, clock, **changes))
        return gemini_engines[-1]

    yield make
    for gemini in gemini_engines:
        gemini.close()
