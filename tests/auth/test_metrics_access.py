"""Access to metrics: programs of this machine, and callers with a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from pagewarden import settings
from pagewarden.auth import keys

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-for-whoever-scrapes-0123456789"
KEY = "sb_secret_that_is_long_enough_for_a_test"
HERE = {"host": "127.0.0.1:54321"}


def _chosen(home: Path, **changes: object) -> settings.Settings:
    given = {"home": home, "supabase_key": SecretStr(KEY), "metrics_token": SecretStr(TOKEN)}
    return settings.Settings.model_validate({**given, **changes})


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
def test_access_to_metrics(
    tmp_path: Path, peer: str | None, headers: dict[str, str], *, may: bool
) -> None:
    """Allowed for loopback callers, and with the token or the secret key."""
    access = keys.MetricsAccess.from_settings(_chosen(tmp_path), KEY)
    assert access.allows(peer, headers) is may


def test_loopback_is_not_trusted_behind_a_proxy(tmp_path: Path) -> None:
    """The proxy may be on this machine and add no headers."""
    access = keys.MetricsAccess.from_settings(
        _chosen(tmp_path, site_url="https://pagewarden.example.org"), KEY
    )
    assert not access.allows("127.0.0.1", HERE)
    assert access.allows("127.0.0.1", {**HERE, "authorization": f"Bearer {TOKEN}"})


def test_empty_bearer_is_refused_without_keys(tmp_path: Path) -> None:
    """Without a key, only loopback callers are allowed."""
    access = keys.MetricsAccess.from_settings(_chosen(tmp_path, metrics_token=None), None)
    assert not access.allows("192.0.2.7", {"authorization": "Bearer "})
    assert access.allows("127.0.0.1", HERE)


def test_weak_token_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(ValueError, match="PAGEWARDEN_METRICS_TOKEN"):
        settings.Settings(metrics_token=SecretStr("secret"))
