"""Who is signed in from this computer: tokens in a file that only its owner can read."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_LOCK_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Session:
    """The tokens of somebody who signed in; expires_at is in seconds since 1970."""

    email: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float


_CONTENT = pydantic.TypeAdapter(dict[str, Session])


def default_path() -> Path:
    """Give the place in the user's folder for settings."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "pagewarden" / "session.json"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one person, by the address of the server; change them when locked()."""

    path: Path = field(default_factory=default_path)

    def get(self, url: str) -> Session | None:
        """Find the session at this server."""
        return self._all().get(url)

    def keep(self, url: str, session: Session) -> None:
        """Put a session in the place of the last one at this server."""
        self._write(self._all() | {url: session})

    def remove(self, url: str) -> None:
        """Forget the session at this server."""
        self._write({known: kept for known, kept in self._all().items() if known != url})

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep every other process from changing the sessions.

        A refresh token can be used once, so of two processes only one may use it.
        """
        with self._translated():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _is_locked(number):  # noqa: ASYNC110  # other processes set no event of ours
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(number)

    def _all(self) -> dict[str, Session]:
        with self._translated():
            if not self.path.exists():
                return {}
            return _CONTENT.validate_json(self.path.read_bytes())

    def _write(self, sessions: dict[str, Session]) -> None:
        """Replace the file when the new one is complete and on disk."""
        with self._translated():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, unfinished = tempfile.mkstemp(dir=self.path.parent)  # open to its owner only
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(_CONTENT.dump_json(sessions))
                    file.flush()
                    os.fsync(number)
                Path(unfinished).replace(self.path)
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise errors.LocalFileError(
                f"{self.path} cannot be used ({exc.strerror}); see to it, or set XDG_CONFIG_HOME "
                "to a folder of yours"
            ) from exc
        except pydantic.ValidationError as exc:
            # Not its own words, for they quote the tokens.
            raise errors.LocalFileError(
                f"{self.path} is broken; remove it, and sign in again"
            ) from exc.__cause__


def _is_locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
