"""The text of a page as tokens, so that strings are found over parts of lines and several lines."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from pagewarden.checks import normalizing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A paragraph that was changed is looked for over so many lines.
LINES_TOGETHER = 6
# Scripts written without spaces: there each character is a token.
_TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}\p{Myanmar}]\p{M}*"
    r"|[^\s\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}\p{Myanmar}]+"
)
# What readers of pictures take for each other, in most fonts.
_LOOKALIKES = str.maketrans({"1": "l", "|": "l", "i": "l", "!": "l", "0": "o", "5": "s", "8": "b"})
# Within a number these are no ornament: 10,5 is not 105.
_GLUE = regex.compile(r"[\s'\"`·\-_]+|(?<!\d)[.,;:]+|[.,;:]+(?!\d)")


# In most fonts without serifs these are the same stroke, and a caron beside a letter is a quote.
_STROKES = str.maketrans({"I": "l", "|": "l", "ť": "t'", "ľ": "l'", "ď": "d'", "Ľ": "L'"})


def seen(text: str) -> str:
    """Give texts that nobody can tell apart in a picture the same form."""
    return normalizing.normalize_strict(text).translate(_STROKES).replace("''", "'")


def skeleton(text: str) -> str:
    """Give texts that readers of pictures confuse the same form; it is no text any more."""
    return _GLUE.sub("", normalizing.normalize_soft(text)).translate(_LOOKALIKES)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a character of a script without spaces: text[start:end] of that line."""

    line: int
    start: int
    end: int
    bones: str


class Page:
    """Tokens of all lines in reading order, each free or taken; a span is a range of them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.tokens = [token for index in range(len(lines)) for token in self._split(index)]
        self._taken = [False] * len(self.tokens)

    def _split(self, line: int) -> Iterator[Token]:
        for match in _TOKEN.finditer(self._lines[line]):
            yield Token(line, match.start(), match.end(), skeleton(match[0]))

    def text(self, span: range) -> str:
        """Give the text of a span; where a line ends, a space stands unless the script has none."""
        parts = []
        for line, group in itertools.groupby(span, key=lambda index: self.tokens[index].line):
            indexes = list(group)
            start, end = self.tokens[indexes[0]].start, self.tokens[indexes[-1]].end
            parts.append(self._lines[line][start:end])
        return _joined(parts)

    def is_free(self, span: range) -> bool:
        """Tell whether nobody took any of it."""
        return not any(self._taken[index] for index in span)

    def take(self, span: range) -> None:
        """Take it, so that nobody else does."""
        for index in span:
            self._taken[index] = True

    def find(self, wanted: str) -> Iterator[range]:
        """Find free spans whose skeleton is that of a string; whole lines first."""
        bones = skeleton(wanted)
        found = [span for start in self._starts() for span in self._spans(start, bones)]
        yield from sorted(found, key=lambda span: not self._is_whole(span))

    def _starts(self) -> Iterator[int]:
        return (index for index, taken in enumerate(self._taken) if not taken)

    def _spans(self, start: int, bones: str) -> Iterator[range]:
        """Go on from a token for as long as a string goes on in the same way.

        A sign without bones may stand at the end: Prix and Prix : both are found.
        """
        joined = ""
        for index in range(start, len(self.tokens)):
            joined += self.tokens[index].bones
            if self._taken[index] or not bones.startswith(joined):
                return
            if joined == bones:
                yield range(start, index + 1)

    def _is_whole(self, span: range) -> bool:
        before = self.tokens[span.start - 1].line if span.start else -1
        after = self.tokens[span.stop].line if span.stop < len(self.tokens) else -1
        return before != self.tokens[span.start].line and after != self.tokens[span[-1]].line

    def free_runs(self) -> list[range]:
        """Give what is free, as the longest runs within one line each."""
        runs = []
        # Within a run a token's index and its place among the free ones grow together.
        for _, group in itertools.groupby(enumerate(self._starts()), key=self._run_of):
            indexes = [index for _, index in group]
            runs.append(range(indexes[0], indexes[-1] + 1))
        return runs

    def _run_of(self, numbered: tuple[int, int]) -> tuple[int, int]:
        number, index = numbered
        return self.tokens[index].line, index - number

    def free_stretches(self) -> list[range]:
        """Give the free runs, and those that follow each other over several lines."""
        runs = self.free_runs()
        stretches = []
        for first in range(len(runs)):
            for last in range(first, min(first + LINES_TOGETHER, len(runs))):
                if last > first and runs[last].start != runs[last - 1].stop:
                    break
                stretches.append(range(runs[first].start, runs[last].stop))
        return stretches


def _joined(parts: Sequence[str]) -> str:
    text = ""
    for part in parts:
        spaceless = text and regex.search(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]$", text)
        text += part if not text or spaceless else f" {part}"
    return text
