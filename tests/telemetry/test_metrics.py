"""Metrics served on a port of their own."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr

from pagewarden import errors, settings
from pagewarden.cli import program
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-for-whoever-scrapes-0123456789"
KEY = "sb_secret_that_is_long_enough_for_a_test"


def _chosen(home: Path, port: int | None = 0, **changes: object) -> settings.Settings:
    given = {"home": home, "supabase_key": SecretStr(KEY), "metrics_token": SecretStr(TOKEN)}
    return settings.Settings.model_validate({**given, "metrics_port": port, **changes})


def test_no_server_without_a_port(tmp_path: Path) -> None:
    """The default is no port."""
    with program.serve_metrics(_chosen(tmp_path, None)) as url:
        assert url is None


def test_processes_use_successive_ports(tmp_path: Path) -> None:
    """All have the same setting."""
    with contextlib.ExitStack() as served:
        first = served.enter_context(program.serve_metrics(_chosen(tmp_path)))
        port = httpx.URL(first or "").port
        others = [
            served.enter_context(program.serve_metrics(_chosen(tmp_path, port))) for _ in range(2)
        ]
        ports = [httpx.URL(url or "").port or 0 for url in (first, *others)]
        assert sorted(set(ports)) == ports
        for url in (first, *others):
            answer = httpx.get(url or "")
            assert answer.headers["content-type"].startswith("text/plain; version=")
            assert "pagewarden_build_info{" in answer.text
    with pytest.raises(httpx.ConnectError):
        httpx.get(first or "")


def test_unusable_address_is_a_settings_error(tmp_path: Path) -> None:
    """The message names the setting."""
    chosen = _chosen(tmp_path, 54340, metrics_host="192.0.2.1")
    with (
        pytest.raises(errors.SettingsError, match=r"192\.0\.2\.1.*PAGEWARDEN_METRICS_HOST"),
        program.serve_metrics(chosen),
    ):
        pass


def test_error_if_no_port_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a port is bounded."""
    monkeypatch.setattr(metrics, "MAX_EXTRA_PORTS", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        chosen = _chosen(tmp_path, taken.getsockname()[1])
        with (
            pytest.raises(errors.SettingsError, match="PAGEWARDEN_METRICS_PORT"),
            program.serve_metrics(chosen),
        ):
            pass


def test_only_allowed_requests_get_metrics(tmp_path: Path) -> None:
    """Through a proxy only with a key; other paths, methods and malformed requests are refused."""
    with program.serve_metrics(_chosen(tmp_path)) as url, httpx.Client() as client:
        assert url is not None
        passed_on = {"X-Forwarded-For": "198.51.100.7"}
        refused = client.get(url, headers=passed_on)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "pagewarden_build_info" not in refused.text
        answer = client.get(url, headers={**passed_on, "Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert client.get(url.replace("/metrics", "/")).status_code == 404
        assert client.post(url).status_code == 501
        with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as rude:
            rude.sendall(b"\xff\xfe\r\n\r\n")
            with rude.makefile("rb") as response:
                assert b"400" in response.read()
        assert client.get(url).status_code == 200
