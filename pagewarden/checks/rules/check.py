"""Check the recognised page of one picture."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import regex

from pagewarden.checks.rules import comparison, languages, normalization, result, text_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pagewarden.ocr import pages

_ISSUES_BY_VERDICT = {
    comparison.Verdict.MISSING: (result.IssueKind.MISSING, "{0!r} is not in the picture."),
    comparison.Verdict.TRUNCATED: (result.IssueKind.TRUNCATED, "{0!r} is truncated: {1!r}."),
    comparison.Verdict.DIFFERENT: (result.IssueKind.DIFFERENT, "Expected {0!r}, found {1!r}."),
    comparison.Verdict.SOFT_MATCH: (
        result.IssueKind.SOFT_MATCH,
        (
            "Expected {0!r}, found {1!r}: only case, accents, punctuation or look-alike characters "
            "differ."
        ),
    ),
}
_UNREADABLE_KINDS = {result.IssueKind.MOJIBAKE, result.IssueKind.MISSING_GLYPH}
_MIN_EXTRA_LETTERS = 3
_LETTER = regex.compile(r"\p{L}")


def check(
    page: pages.ReadPage,
    expected: Sequence[str] | None,
    language: languages.Language | None,
    allowed: Iterable[str] = (),
) -> result.CheckResult:
    """Check a page for text faults, its language, and the expected strings if there are any.

    Without `language`, the language of the text is not checked. `allowed` lists words and whole
    texts that are accepted in any language, such as names and brands.
    """
    return _PageCheck(page, expected, language, _normalize_allowed(allowed)).run()


def _normalize_allowed(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(normalization.normalize_soft, texts)))


def _is_complete_at_edge(issue: result.Issue, matches: Iterable[comparison.StringMatch]) -> bool:
    """Tell whether a text reported as cut off at an edge matches an expected string."""
    if issue.kind is not result.IssueKind.CUT_OFF:
        return False
    equal = {comparison.Verdict.MATCH, comparison.Verdict.SOFT_MATCH}
    return any(match.found == issue.found for match in matches if match.verdict in equal)


class _PageCheck:
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
        self._tokens = comparison.PageTokens([line.text for line in page.lines])

    def run(self) -> result.CheckResult:
        code = self._language.code if self._language else None
        issues = list(text_rules.find_text_issues(self._page, code))
        broken = {issue.found for issue in issues if issue.kind in _UNREADABLE_KINDS}
        strings = None
        if self._expected is None:
            issues += self._check_line_languages(broken)
        else:
            expected = [text for text in self._expected if normalization.normalize_strict(text)]
            matches = comparison.compare(expected, self._tokens)
            issues = [issue for issue in issues if not _is_complete_at_edge(issue, matches)]
            issues += itertools.chain.from_iterable(map(self._to_issues, matches))
            strings = tuple(
                result.StringResult(match.expected, match.verdict, match.found)
                for match in matches[: len(expected)]
            )
        if not self._page.lines and not self._expected:
            issues.append(
                result.Issue(result.IssueKind.NO_TEXT, "No text was found in the picture.")
            )
        return result.CheckResult(code, self._page.text, tuple(issues), strings)

    def _check_line_languages(
        self, garbled_texts: Collection[str | None]
    ) -> Iterator[result.Issue]:
        """Check the language of each line whose text is not broken."""
        for line in self._page.lines:
            if line.text not in garbled_texts:
                yield from self._check_language(line.text, line.quad)

    def _to_issues(self, match: comparison.StringMatch) -> Iterator[result.Issue]:
        quad = self._locate(match.tokens) if match.tokens else None
        if match.verdict is comparison.Verdict.EXTRA:
            yield from self._check_extra(match.found, quad)
        elif match.verdict in _ISSUES_BY_VERDICT:
            kind, message = _ISSUES_BY_VERDICT[match.verdict]
            yield result.Issue(
                kind,
                message.format(match.expected, match.found),
                quad,
                match.expected,
                match.found or None,
                match.diff,
            )

    def _check_extra(self, text: str, quad: pages.Quad | None) -> Iterator[result.Issue]:
        """Report unexpected text, except numbers, single letters and allowed text."""
        foreign = list(self._check_language(text, quad))
        if foreign:
            yield from foreign
        elif not self._is_allowed(text):
            message = f"{text!r} is in the picture but was not expected."
            yield result.Issue(result.IssueKind.EXTRA, message, quad, found=text)

    def _is_allowed(self, text: str) -> bool:
        words = "".join(languages.extract_words(text, self._allowed))
        letters = len(_LETTER.findall(words))
        dense = any(languages.find_script(letter) in languages.DENSE_SCRIPTS for letter in words)
        few = letters < (1 if dense else _MIN_EXTRA_LETTERS)
        return few or normalization.normalize_soft(text) in self._allowed

    def _check_language(self, text: str, quad: pages.Quad | None) -> Iterator[result.Issue]:
        if self._language is None or normalization.normalize_soft(text) in self._allowed:
            return
        found = languages.find_foreign_language(text, self._language, self._allowed)
        if found is None:
            return
        english = found.code == languages.ENGLISH
        kind = result.IssueKind.UNTRANSLATED if english else result.IssueKind.WRONG_LANGUAGE
        message = f"{text!r} is {found.name}, but should be {self._language.name}."
        yield result.Issue(kind, message, quad, found=text)

    def _locate(self, tokens: range) -> pages.Quad:
        """Return the quad of a range of tokens, which may span several lines."""
        by_line = itertools.groupby(tokens, key=lambda index: self._tokens.tokens[index].line)
        quads = [self._locate_in_line(line, list(group)) for line, group in by_line]
        return result.bounding_quad(quads)

    def _locate_in_line(self, line: int, indexes: Sequence[int]) -> pages.Quad:
        first, last = self._tokens.tokens[indexes[0]], self._tokens.tokens[indexes[-1]]
        return result.locate_part(self._page.lines[line], first.start, last.end)
