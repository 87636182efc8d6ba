"""A server of Gemini's API per test, and engines that ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import certifi
import pytest

from tests.support import gemini_engine as engines
from tests.support import gemini_server as served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagewarden.reading.gemini import Gemini


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, one_authority: Path) -> None:
    """Reach loopback directly, and load no long list of authorities for it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write down one certificate: there is no TLS here, and a full list costs 0.15 s an engine."""
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    path = tmp_path_factory.mktemp("authority") / "one.pem"
    path.write_text(first + end + "\n")
    return path


@pytest.fixture
def server() -> Iterator[served.GeminiServer]:
    """Run a server; every reply of its script must have been asked for."""
    with served.running() as gemini:
        yield gemini
    assert gemini.script == []


@pytest.fixture
def clock() -> engines.StillClock:
    """Give the test its own time."""
    return engines.StillClock()


@pytest.fixture
def make(server: served.GeminiServer, clock: engines.StillClock) -> Iterator[engines.Make]:
    """Make engines that ask the server, and close them afterwards."""
    made = []

    def make(**given: Any) -> Gemini:
        made.append(engines.made(server, clock, **given))
        return made[-1]

    yield make
    for gemini in made:
        gemini.close()
