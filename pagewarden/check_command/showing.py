"""What the user sees of a check: a table, or JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from pagewarden import bars
from pagewarden.checks import report
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.check_command import work

UNREADABLE = "UNREADABLE"
_COLOURS = {report.Verdict.PASS: "green", report.Verdict.MANUAL: "yellow", UNREADABLE: "red"}


def verdict(result: work.Result) -> str:
    """Say what became of a picture."""
    return UNREADABLE if result.report is None else result.report.verdict


def passed(results: Sequence[work.Result]) -> bool:
    """Tell whether nobody has to look at any picture."""
    return all(verdict(result) == report.Verdict.PASS for result in results)


def table(results: Sequence[work.Result]) -> Table:
    """Show each picture with its verdict and issues."""
    shown = Table("picture", "verdict", "issues")
    for result in results:
        name = verdict(result)
        issues = "\n".join(map(_line, result.report.issues)) if result.report else result.error
        shown.add_row(Text(result.image), Text(name, _COLOURS[name]), Text(issues or ""))
    return shown


def _line(issue: report.Issue) -> str:
    where = ""
    if issue.quad is not None:
        box = pages.bounds(issue.quad)
        where = f" (at {box.left:.0f}, {box.top:.0f})"
    return f"{issue.severity}: {issue.kind}: {issue.message}{where}"


def summary(results: Sequence[work.Result]) -> str:
    """Say how many pictures became what."""
    names = [verdict(result) for result in results]
    counts = [f"{names.count(name)} {name}" for name in _COLOURS if name in names]
    said = f"{bars.count(len(results), 'picture')}: {', '.join(counts)}"
    unchecked = any(result.report and result.report.language is None for result in results)
    return f"{said}; the language was not checked (no --language)" if unchecked else said


def as_json(results: Sequence[work.Result]) -> str:
    """Give programs all there is, as one list."""
    return json.dumps([_result(result) for result in results], ensure_ascii=False, indent=2)


def _result(result: work.Result) -> dict[str, object]:
    found = {"image": result.image, "verdict": verdict(result)}
    if result.report is None:
        return found | {"error": result.error}
    return found | result.report.as_json()
