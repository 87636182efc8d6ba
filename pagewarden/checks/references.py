"""What should be read in each picture: from a text file, references.json or a CSV file."""

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

MOST_BYTES = 10_000_000
MOST_STRINGS = 1_000
LONGEST = 5_000
SUFFIXES = (".json", ".csv")
_COLUMNS = ("image", "text")
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class Wrong(Exception):
    """References that cannot be understood; the message says where and what to do."""


class References:
    """Expected strings by the name of a picture: its path, its file name or that without suffix."""

    def __init__(self, strings: Mapping[str, list[str]]) -> None:
        self._strings = strings

    def of(self, picture: str) -> list[str] | None:
        """Give the strings of a picture; None when there are none for it."""
        path = PurePath(picture)
        names = (path.as_posix(), path.name, path.stem)
        return next((self._strings[name] for name in names if name in self._strings), None)

    @property
    def names(self) -> list[str]:
        """Name the pictures that strings are there for."""
        return list(self._strings)


def parse(name: str, data: bytes) -> References:
    """Understand a file that has the strings of many pictures, by its name."""
    text = decode(name, data)
    suffix = PurePath(name).suffix.lower()
    if suffix == ".json":
        found = _from_json(name, text)
    elif suffix == ".csv":
        found = _from_csv(name, text)
    else:
        raise Wrong(f"{name}: references are read from {' or '.join(SUFFIXES)} files")
    if not found:
        raise Wrong(f"{name}: there is no picture in it")
    return References({picture: _limited(name, strings) for picture, strings in found.items()})


def lines(name: str, data: bytes) -> list[str]:
    """Take each line of a text file for one string."""
    return _limited(name, _split(decode(name, data)))


def unstorable(text: str) -> bool:
    """Tell whether a text has what no database stores: NUL, or a half of a character."""
    return _NO_CHARACTER.search(text) is not None


def decode(name: str, data: bytes) -> str:
    """Decode UTF-8, with a byte order mark or without."""
    if len(data) > MOST_BYTES:
        raise Wrong(f"{name}: it has more than {MOST_BYTES:,} bytes; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Wrong(f"{name}: byte {exc.start:,} is not UTF-8; save it as UTF-8") from exc


def _split(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _limited(name: str, strings: list[str]) -> list[str]:
    if len(strings) > MOST_STRINGS:
        raise Wrong(f"{name}: more than {MOST_STRINGS:,} strings for one picture; leave some out")
    if any(len(text) > LONGEST for text in strings):
        raise Wrong(f"{name}: a string has more than {LONGEST:,} characters; split it")
    if any(map(unstorable, strings)):
        raise Wrong(f"{name}: a string has characters that are none; take them out")
    return strings


def _from_json(name: str, text: str) -> dict[str, list[str]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Wrong(f"{name}: this is no JSON ({exc})") from exc
    if not isinstance(data, dict):
        raise Wrong(f'{name}: say {{"picture.png": ["a string", "another one"]}}')
    return {picture: _strings(name, picture, value) for picture, value in data.items()}


def _strings(name: str, picture: str, value: Any) -> list[str]:  # noqa: ANN401  # any JSON
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return [text.strip() for text in value if text.strip()]
    raise Wrong(f"{name}: the value of {picture!r} must be a string or a list of strings")


def _from_csv(name: str, text: str) -> dict[str, list[str]]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    found: dict[str, list[str]] = defaultdict(list)
    try:
        if not set(_COLUMNS) <= set(rows.fieldnames or ()):
            raise Wrong(f"{name}: its first row must have the columns {' and '.join(_COLUMNS)}")
        for row in rows:
            picture, value = (row[column] or "" for column in _COLUMNS)
            if not picture.strip():
                raise Wrong(f"{name}, line {rows.line_num}: the picture is not named")
            found[picture.strip()] += [value.strip()] if value.strip() else []
    except csv.Error as exc:
        raise Wrong(f"{name}, after line {rows.line_num}: {exc}") from exc
    return dict(found)
