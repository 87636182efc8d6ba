"""Expected strings of each picture: from a text file, references.json or a CSV file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 10_000_000
MAX_STRINGS = 1_000
MAX_STRING_LENGTH = 5_000
SUFFIXES = (".json", ".csv")
_COLUMNS = ("image", "text")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class InvalidReferences(Exception):
    """References cannot be parsed; the message says where, and how to fix them."""


class References:
    """Expected strings by picture name: its path, file name, or file name without suffix."""

    def __init__(self, strings: Mapping[str, list[str]]) -> None:
        self._strings = strings

    def find(self, picture: str) -> list[str] | None:
        """Return the strings of a picture, or None if it has no entry."""
        path = PurePath(picture)
        names = (path.as_posix(), path.name, path.stem)
        return next((self._strings[name] for name in names if name in self._strings), None)

    @property
    def names(self) -> list[str]:
        """Names of the pictures that have strings."""
        return list(self._strings)


def parse_file(name: str, data: bytes) -> References:
    """Parse a file with the strings of many pictures; its suffix selects the format."""
    text = decode(name, data)
    suffix = PurePath(name).suffix.lower()
    if suffix == ".json":
        found = _parse_json(name, text)
    elif suffix == ".csv":
        found = _parse_csv(name, text)
    else:
        raise InvalidReferences(f"{name}: references must be {' or '.join(SUFFIXES)} files")
    if not found:
        raise InvalidReferences(f"{name}: the file lists no pictures")
    return References({picture: _check_limits(name, strings) for picture, strings in found.items()})


def parse_lines(name: str, data: bytes) -> list[str]:
    """Parse a text file with one string per line."""
    return _check_limits(name, _split_lines(decode(name, data)))


def is_unstorable(text: str) -> bool:
    """Tell whether a text has characters that Postgres cannot store: NUL or lone surrogates."""
    return _UNSTORABLE.search(text) is not None


def decode(name: str, data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    if len(data) > MAX_BYTES:
        raise InvalidReferences(f"{name}: the file is larger than {MAX_BYTES:,} bytes; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InvalidReferences(
            f"{name}: byte {exc.start:,} is not valid UTF-8; save the file as UTF-8"
        ) from exc


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _check_limits(name: str, strings: list[str]) -> list[str]:
    if len(strings) > MAX_STRINGS:
        raise InvalidReferences(
            f"{name}: more than {MAX_STRINGS:,} strings for one picture; remove some"
        )
    if any(len(text) > MAX_STRING_LENGTH for text in strings):
        raise InvalidReferences(
            f"{name}: a string has more than {MAX_STRING_LENGTH:,} characters; split it"
        )
    if any(map(is_unstorable, strings)):
        raise InvalidReferences(f"{name}: a string contains invalid characters; remove them")
    return strings


def _parse_json(name: str, text: str) -> dict[str, list[str]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidReferences(f"{name}: invalid JSON ({exc})") from exc
    if not isinstance(data, dict):
        raise InvalidReferences(
            f'{name}: expected an object such as {{"picture.png": ["a string", "another one"]}}'
        )
    return {picture: _to_strings(name, picture, value) for picture, value in data.items()}


def _to_strings(name: str, picture: str, value: Any) -> list[str]:  # noqa: ANN401  # any JSON
    if isinstance(value, str):
        return _split_lines(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return [text.strip() for text in value if text.strip()]
    raise InvalidReferences(
        f"{name}: the value of {picture!r} must be a string or a list of strings"
    )


def _parse_csv(name: str, text: str) -> dict[str, list[str]]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    found: dict[str, list[str]] = defaultdict(list)
    try:
        if not set(_COLUMNS) <= set(rows.fieldnames or ()):
            raise InvalidReferences(
                f"{name}: the first row must have the columns {' and '.join(_COLUMNS)}"
            )
        for row in rows:
            picture, value = (row[column] or "" for column in _COLUMNS)
            if not picture.strip():
                raise InvalidReferences(f"{name}, line {rows.line_num}: the picture has no name")
            found[picture.strip()] += [value.strip()] if value.strip() else []
    except csv.Error as exc:
        raise InvalidReferences(f"{name}, after line {rows.line_num}: {exc}") from exc
    return dict(found)
