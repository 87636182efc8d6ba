"""Reports of check jobs: a page to look at and print, a table for spreadsheets, JSON for programs.

A job is a mapping in the form in which the API gives it. It need not have ended: what is there is
shown, and what is missing is said.
"""

from __future__ import annotations

import csv
import datetime as dt
import enum
import functools
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from pagewarden.checks import framing, report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLUMNS = (
    "image",
    "verdict",
    "match",
    "decision",
    "severity",
    "kind",
    "message",
    "expected",
    "found",
    "languageChecked",
)


class Format(enum.StrEnum):
    """The formats of a report."""

    HTML = "html"
    CSV = "csv"
    JSON = "json"


MEDIA_TYPES = {
    Format.HTML: "text/html; charset=utf-8",
    Format.CSV: "text/csv; charset=utf-8",
    Format.JSON: "application/json",
}

_STATES = {
    "PENDING": "The job waits; no picture has been read yet.",
    "PROCESSING": "The job is not finished; pictures that are still to be read have no result.",
    "SUCCEEDED": "",
    "FAILED": "The job failed; pictures that were not read have no result.",
    "CANCELLED": "The job was cancelled; pictures that were not read by then have no result.",
}
_YES_NO = {True: "yes", False: "no", None: ""}
# A spreadsheet takes a cell that begins so for a formula; that of some languages the wide ones too.
_FORMULA = re.compile(
    "[=+\\-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]"
)
# What no HTML may contain.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def write(job: Mapping[str, Any], form: Format) -> str:
    """Write a report in one of the formats."""
    writers = {Format.HTML: as_html, Format.CSV: as_csv, Format.JSON: as_json}
    return writers[form](job)


def as_json(job: Mapping[str, Any]) -> str:
    """Write the job as it is."""
    return json.dumps(job, ensure_ascii=False, indent=2) + "\n"


def as_csv(job: Mapping[str, Any]) -> str:
    """Write one row for each issue, and one for each picture without any.

    Begins with a byte order mark, without which spreadsheets take UTF-8 for something else.
    """
    out = io.StringIO(newline="")
    rows = csv.DictWriter(out, COLUMNS, restval="", extrasaction="ignore")
    rows.writeheader()
    for result in job["results"]:
        for row in _rows(result):
            rows.writerow({column: _harmless(row.get(column)) for column in COLUMNS})
    return "\N{ZERO WIDTH NO-BREAK SPACE}" + out.getvalue()


def _rows(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    said = {key: _YES_NO[result.get(key)] for key in ("match", "languageChecked")}
    for issue in result.get("issues") or [{"message": result.get("error")}]:
        yield {**result, **said, **issue}


def _harmless(cell: str | None) -> str:
    return "'" + cell if cell and _FORMULA.match(cell) else cell or ""


def as_html(job: Mapping[str, Any]) -> str:
    """Write one page that needs nothing else, has no script, and can be printed."""
    pictures = [_picture(number, result) for number, result in enumerate(job["results"], start=1)]
    return _template().render(
        job=job,
        state=_STATES.get(job["status"], ""),
        pictures=pictures,
        counts=_counts(job["results"]),
    )


def _counts(results: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    verdicts = [result.get("verdict") for result in results]
    severities = [issue["severity"] for result in results for issue in result.get("issues") or ()]
    counts = {
        "pictures": len(results),
        "pass": verdicts.count(report.Verdict.PASS),
        "manual": verdicts.count(report.Verdict.MANUAL),
        "without a result": verdicts.count(None),
    }
    by_severity = {f"{severity}s": severities.count(severity) for severity in report.Severity}
    return counts | by_severity


@dataclass(frozen=True, slots=True)
class _Picture:
    number: int
    result: Mapping[str, Any]
    issues: Sequence[Mapping[str, Any]]
    expected: Sequence[Mapping[str, Any]]
    frame: framing.Frame | None


def _picture(number: int, result: Mapping[str, Any]) -> _Picture:
    issues = result.get("issues") or ()
    return _Picture(number, result, issues, framing.expected(result), framing.frame(result))


@functools.cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.filters["moment"] = _moment
    return made.get_template("report.html")


def _printable(value: Any) -> Any:  # noqa: ANN401  # whatever a template shows
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def _moment(text: str) -> str:
    """Say a moment for people, as far as it is one."""
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return when.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
