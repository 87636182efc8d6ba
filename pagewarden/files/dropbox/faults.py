"""What Dropbox refuses, as errors of ours."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import httpx

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_QUOTED = 300  # characters of Dropbox's own words in a message of ours

_ABSENT = frozenset({"not_found", "not_file", "not_folder"})
_PASSING = frozenset({"too_many_write_operations", "content_hash_mismatch"})

# By the first tag that a refusal has.
_MEANINGS: tuple[tuple[frozenset[str], type[errors.FileStoreError], str], ...] = (
    (
        frozenset({"conflict"}),
        errors.FileExists,
        "there is a file at {path!r} or above it already; choose another path",
    ),
    (
        frozenset(
            {
                "insufficient_space",
                "team_folder_insufficient_space",
                "member_folder_insufficient_space",
                "upload_traffic_limit_reached",
            }
        ),
        errors.StoreFull,
        "the Dropbox is full ({refusal}); make room in it",
    ),
    (
        frozenset({"lookup_failed"}),
        errors.StoreAway,
        "Dropbox lost an upload half-way ({refusal}); send {path!r} again",
    ),
    (_ABSENT, errors.FileNotThere, "there is no file {path!r}"),
    (
        frozenset({"restricted_content"}),
        errors.FileAccessDenied,
        "Dropbox does not hand out the file {path!r} ({refusal}); upload it again",
    ),
    (
        frozenset({"malformed_path", "disallowed_name"}),
        errors.UnsafePath,
        "Dropbox keeps no file called {path!r}; choose another name",
    ),
    (
        frozenset({"too_large", "payload_too_large"}),
        errors.FileTooLarge,
        "the file {path!r} is too large for Dropbox; split it",
    ),
)


class Refusal(Exception):
    """An answer 409: the call was understood, and what it asks cannot be done.

    tags lead from the kind of the refusal to its reason: path, conflict, file.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.tags = tuple(_tags(error))
        self.correct_offset = _correct_offset(error)
        super().__init__("/".join(self.tags))

    @property
    def is_passing(self) -> bool:
        """Tell whether the same call may be granted a moment later."""
        return not _PASSING.isdisjoint(self.tags)


def _tags(error: Mapping[str, Any]) -> Iterator[str]:
    tag = error.get(".tag")
    if isinstance(tag, str):
        yield tag
        inner = error.get(tag, error.get("reason"))
        if isinstance(inner, dict):
            yield from _tags(inner)


def _correct_offset(error: Mapping[str, Any]) -> int | None:
    for layer in (error, error.get("lookup_failed")):
        if isinstance(layer, dict) and isinstance(layer.get("correct_offset"), int):
            return int(layer["correct_offset"])
    return None


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise errors of ours for refusals about this path."""
    try:
        yield
    except Refusal as exc:
        raise _of_refusal(exc, path) from exc


def _of_refusal(refusal: Refusal, path: str) -> errors.FileStoreError:
    for tags, kind, words in _MEANINGS:
        if not tags.isdisjoint(refusal.tags):
            return kind(words.format(path=path, refusal=refusal))
    return errors.StoreUnusable(
        f"Dropbox will not do this with {path!r} ({refusal}); see to the rights of the account"
    )


@contextlib.contextmanager
def transported() -> Iterator[None]:
    """Raise StoreAway for what goes wrong on the way."""
    try:
        yield
    except httpx.HTTPError as exc:
        reason = str(exc) or type(exc).__name__
        raise errors.StoreAway(f"Dropbox cannot be reached ({reason}); try again") from exc


def of_answer(status: int, headers: httpx.Headers, body: bytes) -> Exception:
    """Say what is wrong with an answer that is no success."""
    if status == 409:
        refusal = Refusal(_error(body))
        busy = f"Dropbox could not do it just now ({refusal}); try again"
        return errors.StoreAway(busy) if refusal.is_passing else refusal
    quoted = body[:_QUOTED].decode(errors="replace")
    if status in {401, 403}:
        return errors.StoreKeyRefused(
            f"Dropbox does not let us in; see to DROPBOX_REFRESH_TOKEN and to the permissions of "
            f"the app, files.content and files.metadata, read and write (Dropbox says {quoted!r})"
        )
    if status == 429 or status >= 500:
        return errors.StoreAway(
            f"Dropbox is busy or broken (HTTP {status}); try again",
            retry_after=_seconds(headers.get("Retry-After", "")),
        )
    return errors.StoreUnusable(
        f"Dropbox does not understand us (HTTP {status}); see to PAGEWARDEN_DROPBOX_API_URL and "
        f"PAGEWARDEN_DROPBOX_CONTENT_URL (Dropbox says {quoted!r})"
    )


def _error(body: bytes) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError):
        answer = json.loads(body)
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            return dict(answer["error"])
    return {}


def _seconds(value: str) -> float | None:
    return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
