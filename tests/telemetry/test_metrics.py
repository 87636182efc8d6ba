"""Meters on a port of their own: where, and for whom."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr

from pagewarden import errors, observed, settings
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-for-whoever-scrapes-0123456789"
KEY = "sb_secret_that_is_long_enough_for_a_test"


def _chosen(home: Path, port: int | None = 0, **changes: object) -> settings.Settings:
    given = {"home": home, "supabase_key": SecretStr(KEY), "metrics_token": SecretStr(TOKEN)}
    return settings.Settings.model_validate({**given, "metrics_port": port, **changes})


def test_without_a_port_nothing_is_served(tmp_path: Path) -> None:
    """That is the default."""
    with observed.serve_metrics(_chosen(tmp_path, None)) as url:
        assert url is None


def test_processes_of_a_machine_take_the_next_ports(tmp_path: Path) -> None:
    """With one setting for all of them; each says where it is."""
    with contextlib.ExitStack() as served:
        first = served.enter_context(observed.serve_metrics(_chosen(tmp_path)))
        port = httpx.URL(first or "").port
        others = [
            served.enter_context(observed.serve_metrics(_chosen(tmp_path, port))) for _ in range(2)
        ]
        ports = [httpx.URL(url or "").port or 0 for url in (first, *others)]
        assert sorted(set(ports)) == ports
        for url in (first, *others):
            answer = httpx.get(url or "")
            assert answer.headers["content-type"].startswith("text/plain; version=")
            assert "pagewarden_build_info{" in answer.text
    with pytest.raises(httpx.ConnectError):
        httpx.get(first or "")


def test_an_address_that_is_not_ours_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Before anything is read."""
    chosen = _chosen(tmp_path, 54340, metrics_host="192.0.2.1")
    with (
        pytest.raises(errors.SettingsError, match=r"192\.0\.2\.1.*PAGEWARDEN_METRICS_HOST"),
        observed.serve_metrics(chosen),
    ):
        pass


def test_ports_that_are_all_taken_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not look for ever."""
    monkeypatch.setattr(metrics, "MAX_EXTRA_PORTS", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        chosen = _chosen(tmp_path, taken.getsockname()[1])
        with (
            pytest.raises(errors.SettingsError, match="PAGEWARDEN_METRICS_PORT"),
            observed.serve_metrics(chosen),
        ):
            pass


def test_a_server_answers_whoever_may_and_nothing_else(tmp_path: Path) -> None:
    """Behind a proxy only with a key; other paths, methods and rubbish are refused."""
    with observed.serve_metrics(_chosen(tmp_path)) as url, httpx.Client() as client:
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
            assert b"Error" in rude.recv(100)
        assert client.get(url).status_code == 200
