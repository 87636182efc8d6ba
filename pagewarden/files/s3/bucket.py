"""Which bucket, where, and with what right."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

CONNECT = timedelta(seconds=10)
SILENCE = timedelta(seconds=60)  # in which not one byte comes
REQUEST = timedelta(minutes=15)  # for all of it; a broken download is taken up again


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is not given comes from AWS_… variables, or from the role of the machine."""

    name: str
    prefix: str | None = None
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)

    def connect(self, *, retries: int, pause: float, longest_pause: float) -> S3Store:
        """Make a client; nothing is sent yet."""
        return S3Store(
            self.name,
            prefix=self.prefix,
            config=self._config(),
            client_options={
                "allow_http": (self.endpoint or "").startswith("http://"),
                "connect_timeout": CONNECT,
                "read_timeout": SILENCE,
                "timeout": REQUEST,
            },
            retry_config={
                "max_retries": retries,
                "backoff": {
                    "init_backoff": timedelta(seconds=pause),
                    "max_backoff": timedelta(seconds=longest_pause),
                },
            },
            # Not by the settings of the library: to those it would add the token of another key,
            # when there is one in the environment.
            credential_provider=self._credential if self.access_key_id else None,
        )

    def _config(self) -> S3Config:
        config: S3Config = {"copy_if_not_exists": "multipart", "disable_bulk_delete": True}
        if self.endpoint:
            config["endpoint"] = self.endpoint.rstrip("/")
        if self.region:
            config["region"] = self.region
        return config

    def _credential(self) -> S3Credential:
        return {
            "access_key_id": self.access_key_id or "",
            "secret_access_key": self.secret_access_key or "",
            "token": None,
            "expires_at": None,
        }
