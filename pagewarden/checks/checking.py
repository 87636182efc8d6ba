"""The check of one picture: what was read in, a report out."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import regex

from pagewarden.checks import comparing, faults, languages, normalizing, places, report, spans

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pagewarden.reading import pages

_UNEQUAL = {
    comparing.Verdict.MISSING: (report.Kind.MISSING, "{0!r} is not in the picture."),
    comparing.Verdict.TRUNCATED: (report.Kind.TRUNCATED, "{0!r} is cut short: {1!r}."),
    comparing.Verdict.DIFFERENT: (report.Kind.DIFFERENT, "{0!r} was expected, {1!r} is there."),
    comparing.Verdict.SOFT_MATCH: (
        report.Kind.SOFT_MATCH,
        "{0!r} is there as {1!r}: only case, accents, signs or look-alikes differ.",
    ),
}
_BROKEN = {report.Kind.MOJIBAKE, report.Kind.MISSING_GLYPH}
_FEWEST_EXTRA_LETTERS = 3
_LETTER = regex.compile(r"\p{L}")


def check(
    page: pages.ReadPage,
    expected: Sequence[str] | None,
    language: languages.Language | None,
    allowed: Iterable[str] = (),
) -> report.Report:
    """Check a page in a language, against the strings that should be on it if they are known.

    Without a language, strings and faults are checked, and the language of the text is not.
    allowed are words and whole texts that may stand in any language: names, brands.
    """
    return _Check(page, expected, language, _softly(allowed)).run()


def _softly(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(normalizing.normalize_soft, texts)))


def _is_whole(issue: report.Issue, judged: Iterable[comparing.Judged]) -> bool:
    """Tell whether a text at the edge of the picture is there to its end, as was expected."""
    if issue.kind is not report.Kind.CUT_OFF:
        return False
    equal = {comparing.Verdict.MATCH, comparing.Verdict.SOFT_MATCH}
    return any(one.found == issue.found for one in judged if one.verdict in equal)


class _Check:
    def __init__(
        self,
        page: pages.ReadPage,
        expected: Sequence[str] | None,
        language: languages.Language | None,
        allowed: Collection[str],
    ) -> None:
        self._page = page
        self._expected = expected
        self._language = language
        self._allowed = allowed
        self._spans = spans.Page([line.text for line in page.lines])

    def run(self) -> report.Report:
        code = self._language.code if self._language else None
        issues = list(faults.find(self._page, code))
        broken = {issue.found for issue in issues if issue.kind in _BROKEN}
        strings = None
        if self._expected is None:
            issues += self._foreign_lines(broken)
        else:
            wanted = [text for text in self._expected if normalizing.normalize_strict(text)]
            judged = comparing.compare(wanted, self._spans)
            issues = [issue for issue in issues if not _is_whole(issue, judged)]
            issues += itertools.chain.from_iterable(map(self._issues, judged))
            strings = tuple(
                report.Outcome(one.expected, one.verdict, one.found)
                for one in judged[: len(wanted)]
            )
        if not self._page.lines and not self._expected:
            issues.append(report.Issue(report.Kind.NO_TEXT, "No text was found in the picture."))
        return report.Report(code, self._page.text, tuple(issues), strings)

    def _foreign_lines(self, broken: Collection[str | None]) -> Iterator[report.Issue]:
        """Judge the language of each line, but not of one that is no proper text."""
        for line in self._page.lines:
            if line.text not in broken:
                yield from self._of_language(line.text, line.quad)

    def _issues(self, judged: comparing.Judged) -> Iterator[report.Issue]:
        quad = self._quad(judged.tokens) if judged.tokens else None
        if judged.verdict is comparing.Verdict.EXTRA:
            yield from self._extra(judged.found, quad)
        elif judged.verdict in _UNEQUAL:
            kind, sentence = _UNEQUAL[judged.verdict]
            yield report.Issue(
                kind,
                sentence.format(judged.expected, judged.found),
                quad,
                judged.expected,
                judged.found or None,
                judged.diff,
            )

    def _extra(self, text: str, quad: pages.Quad | None) -> Iterator[report.Issue]:
        """Report text that nobody expected; numbers, single letters and what is allowed are not."""
        foreign = list(self._of_language(text, quad))
        if foreign:
            yield from foreign
        elif not self._is_allowed(text):
            sentence = f"{text!r} is in the picture, and was not expected."
            yield report.Issue(report.Kind.EXTRA, sentence, quad, found=text)

    def _is_allowed(self, text: str) -> bool:
        telling = "".join(languages.words(text, self._allowed))
        letters = len(_LETTER.findall(telling))
        dense = any(languages.script_of(letter) in languages.DENSE for letter in telling)
        few = letters < (1 if dense else _FEWEST_EXTRA_LETTERS)
        return few or normalizing.normalize_soft(text) in self._allowed

    def _of_language(self, text: str, quad: pages.Quad | None) -> Iterator[report.Issue]:
        if self._language is None or normalizing.normalize_soft(text) in self._allowed:
            return
        found = languages.foreign(text, self._language, self._allowed)
        if found is None:
            return
        english = found.code == languages.ENGLISH
        kind = report.Kind.UNTRANSLATED if english else report.Kind.WRONG_LANGUAGE
        wanted = self._language.name
        sentence = f"{text!r} is {found.name}, and should be {wanted}."
        yield report.Issue(kind, sentence, quad, found=text)

    def _quad(self, tokens: range) -> pages.Quad:
        """Find where tokens stand: the words in each line, and what surrounds all lines."""
        by_line = itertools.groupby(tokens, key=lambda index: self._spans.tokens[index].line)
        return places.around([self._in_line(line, list(group)) for line, group in by_line])

    def _in_line(self, line: int, indexes: Sequence[int]) -> pages.Quad:
        first, last = self._spans.tokens[indexes[0]], self._spans.tokens[indexes[-1]]
        return places.of_part(self._page.lines[line], first.start, last.end)
