"""Meters on a port of their own: where, and for whom."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import SecretStr

from pagewarden import errors, metrics_server, scrapers, settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-for-whoever-scrapes-0123456789"
KEY = "sb_secret_that_is_long_enough_for_a_test"
HERE = {"host": "127.0.0.1:54321"}


def _chosen(home: Path, port: int | None = 0, **changes: object) -> settings.Settings:
    given = {"home": home, "supabase_key": SecretStr(KEY), "metrics_token": SecretStr(TOKEN)}
    return settings.Settings.model_validate({**given, "metrics_port": port, **changes})


def test_without_a_port_nothing_is_served(tmp_path: Path) -> None:
    """That is the default."""
    with metrics_server.serving(_chosen(tmp_path, None)) as url:
        assert url is None


def test_processes_of_a_machine_take_the_next_ports(tmp_path: Path) -> None:
    """With one setting for all of them; each says where it is."""
    with contextlib.ExitStack() as served:
        first = served.enter_context(metrics_server.serving(_chosen(tmp_path)))
        port = httpx.URL(first or "").port
        others = [
            served.enter_context(metrics_server.serving(_chosen(tmp_path, port))) for _ in range(2)
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
        metrics_server.serving(chosen),
    ):
        pass


def test_ports_that_are_all_taken_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not look for ever."""
    monkeypatch.setattr(metrics_server, "NEXT_PORTS", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        chosen = _chosen(tmp_path, taken.getsockname()[1])
        with (
            pytest.raises(errors.SettingsError, match="PAGEWARDEN_METRICS_PORT"),
            metrics_server.serving(chosen),
        ):
            pass


def test_a_server_answers_whoever_may_and_nothing_else(tmp_path: Path) -> None:
    """Behind a proxy only with a key; other paths, methods and rubbish are refused."""
    with metrics_server.serving(_chosen(tmp_path)) as url, httpx.Client() as client:
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


@pytest.mark.parametrize(
    ("peer", "headers", "may"),
    [
        ("127.0.0.1", HERE, True),
        ("::1", {"host": "[::1]:54321"}, True),
        ("127.0.0.1", {"host": "localhost"}, True),
        ("192.0.2.7", HERE, False),
        ("", HERE, False),
        (None, HERE, False),
        ("127.0.0.1", {"host": "evil.example"}, False),
        ("127.0.0.1", {}, False),
        *[
            ("127.0.0.1", {**HERE, name: "x"}, False)
            for name in ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
        ],
        ("192.0.2.7", {"authorization": f"Bearer {TOKEN}"}, True),
        ("192.0.2.7", {"authorization": f"bearer  {KEY} "}, True),
        ("192.0.2.7", {"authorization": f"Basic {TOKEN}"}, False),
        ("192.0.2.7", {"authorization": f"Bearer {TOKEN[:-1]}"}, False),
        ("192.0.2.7", {"authorization": "Bearer é"}, False),
        ("192.0.2.7", {"authorization": "Bearer "}, False),
    ],
)
def test_who_may_read_them(
    tmp_path: Path, peer: str | None, headers: dict[str, str], *, may: bool
) -> None:
    """Programs of this machine that mean it, and who has the token or the secret key."""
    door = scrapers.door(_chosen(tmp_path), KEY)
    assert door.admits(peer, headers) is may


def test_nobody_is_believed_to_be_near_where_people_come_through_a_proxy(tmp_path: Path) -> None:
    """It may be on this machine, and say nothing of those behind it."""
    door = scrapers.door(_chosen(tmp_path, site_url="https://pagewarden.example.org"), KEY)
    assert not door.admits("127.0.0.1", HERE)
    assert door.admits("127.0.0.1", {**HERE, "authorization": f"Bearer {TOKEN}"})


def test_without_keys_no_bearer_opens(tmp_path: Path) -> None:
    """An empty one does not, either."""
    door = scrapers.door(_chosen(tmp_path, metrics_token=None), None)
    assert not door.admits("192.0.2.7", {"authorization": "Bearer "})
    assert door.admits("127.0.0.1", HERE)


def test_a_token_that_is_too_weak_is_refused() -> None:
    """Others could guess it."""
    with pytest.raises(ValueError, match="PAGEWARDEN_METRICS_TOKEN"):
        settings.Settings(metrics_token=SecretStr("secret"))
