"""Cut a SQL script into its statements, knowing on which line each of them is."""

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

    line is the line of the script (from 1) on which text begins, first_word the place in text
    (from 0) where the comments end.
    """

    text: str
    line: int
    first_word: int

    def line_at(self, position: int | None) -> int:
        """Line of a position (from 1) that Postgres reports; without one, of the first word."""
        place = self.first_word if position is None else position - 1
        return self.line + self.text.count("\n", 0, place)


def split(script: str) -> Iterator[Statement]:
    """Yield the statements of a script in order."""
    start, first_word, body = 0, None, _Body()
    for kind, place, text in _tokens(script):
        if kind in {"blank", "comment"}:
            continue
        if kind == "word":
            body.see(text.lower())
        if kind != "semicolon":
            first_word = place if first_word is None else first_word
        elif not body.depth:
            if first_word is not None:
                yield _statement(script, start, place, first_word)
            start, first_word = place + 1, None
    if first_word is not None:
        yield _statement(script, start, len(script), first_word)


def tokens_without_comments(script: str) -> Iterator[str]:
    """Yield the words and signs of a script, without whitespace and comments."""
    for kind, _, text in _tokens(script):
        if kind not in {"blank", "comment"}:
            yield text


@dataclass(slots=True)
class _Body:
    """Whether we are between begin atomic and its end, where semicolons end nothing."""

    depth: int = 0
    last: str = ""

    def see(self, word: str) -> None:
        if (self.last, word) == ("begin", "atomic") or (self.depth and word == "case"):
            self.depth += 1
        elif self.depth and word == "end":
            self.depth -= 1
        self.last = word


def _statement(script: str, start: int, end: int, first_word: int) -> Statement:
    text = script[start:end]
    start += len(text) - len(text.lstrip())
    return Statement(text.strip(), script.count("\n", 0, start) + 1, first_word - start)


def _tokens(script: str) -> Iterator[tuple[str, int, str]]:
    place = 0
    while token := _TOKEN.match(script, place):
        end = _comment_end(script, token.end()) if token["comment"] else token.end()
        yield str(token.lastgroup), place, script[place:end]
        place = end


def _comment_end(script: str, place: int) -> int:
    """Find where a comment ends; comments of Postgres nest."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(script, place):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(script)
