"""Split a SQL script into statements with their line numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | --[^\n]* )
  | (?P<comment> /\* )
  | (?P<quoted>
        [eE] ' (?: [^'\\] | \\. | '' )* '
      | ' [^']* '
      | " [^"]* "
      | \$ (?P<tag> (?: [^\W\d]\w* )? ) \$ .*? \$ (?P=tag) \$
    )
  | (?P<semicolon> ; )
  | (?P<word> [\w$]+ )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with the comments before it, without its semicolon.

    `line` is the line of the script (from 1) on which `text` begins, `first_word` the offset in
    `text` (from 0) at which the comments end.
    """

    text: str
    line: int
    first_word: int

    def find_line(self, position: int | None) -> int:
        """Return the line of a position (from 1) reported by Postgres, or of the first word."""
        offset = self.first_word if position is None else position - 1
        return self.line + self.text.count("\n", 0, offset)


def split(script: str) -> Iterator[Statement]:
    """Yield the statements of a script in order."""
    start, first_word, body = 0, None, _AtomicBody()
    for kind, offset, text in _tokenize(script):
        if kind in {"blank", "comment"}:
            continue
        if kind == "word":
            body.read_word(text.lower())
        if kind != "semicolon":
            first_word = offset if first_word is None else first_word
        elif not body.depth:
            if first_word is not None:
                yield _make_statement(script, start, offset, first_word)
            start, first_word = offset + 1, None
    if first_word is not None:
        yield _make_statement(script, start, len(script), first_word)


def iterate_tokens(script: str) -> Iterator[str]:
    """Yield the tokens of a script without whitespace and comments."""
    for kind, _, text in _tokenize(script):
        if kind not in {"blank", "comment"}:
            yield text


@dataclass(slots=True)
class _AtomicBody:
    """Nesting depth of `begin atomic … end`, where semicolons end no statement."""

    depth: int = 0
    last_word: str = ""

    def read_word(self, word: str) -> None:
        if (self.last_word, word) == ("begin", "atomic") or (self.depth and word == "case"):
            self.depth += 1
        elif self.depth and word == "end":
            self.depth -= 1
        self.last_word = word


def _make_statement(script: str, start: int, end: int, first_word: int) -> Statement:
    text = script[start:end]
    start += len(text) - len(text.lstrip())
    return Statement(text.strip(), script.count("\n", 0, start) + 1, first_word - start)


def _tokenize(script: str) -> Iterator[tuple[str, int, str]]:
    offset = 0
    while token := _TOKEN.match(script, offset):
        end = _find_comment_end(script, token.end()) if token["comment"] else token.end()
        yield str(token.lastgroup), offset, script[offset:end]
        offset = end


def _find_comment_end(script: str, offset: int) -> int:
    """Return the end of a comment; comments nest in Postgres."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(script, offset):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(script)
