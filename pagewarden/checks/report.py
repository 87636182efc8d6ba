"""Reports of check jobs as HTML, CSV and JSON.

Jobs and results are mappings in the form of the API. A job may still be running: its report says
which results are missing.
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

from pagewarden.checks.rules import comparison
from pagewarden.checks.rules.result import Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class IssueMark:
    """A polygon in a picture, with the numbers (from 1) of its issues.

    x and y are the position of the numbers: above the polygon, or inside it at the top edge.
    """

    points: str
    numbers: Sequence[int]
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PictureOverlay:
    """Outline of a picture in pixels with the marks of its issues; size is the font size."""

    left: float
    top: float
    width: float
    height: float
    size: float
    marks: Sequence[IssueMark]


def frame_issues(result: Mapping[str, Any]) -> PictureOverlay | None:
    """Return the outline of a picture with its issues; of the issues if its size is unknown."""
    by_quad: dict[tuple[tuple[float, float], ...], list[int]] = {}
    for number, issue in enumerate(result.get("issues") or (), start=1):
        if issue.get("quad"):
            by_quad.setdefault(tuple((x, y) for x, y in issue["quad"]), []).append(number)
    if not by_quad:
        return None
    points = [point for quad in by_quad for point in quad]
    right = result.get("width") or max(x for x, _ in points)
    bottom = result.get("height") or max(y for _, y in points)
    size = max(right, bottom, 1) / 24
    left, top = (min(0, *(point[axis] for point in points)) for axis in (0, 1))
    marks = [_to_mark(quad, numbers, size) for quad, numbers in by_quad.items()]
    return PictureOverlay(left, top, max(right - left, 1), max(bottom - top, 1), size, marks)


def _to_mark(quad: Sequence[tuple[float, float]], numbers: Sequence[int], size: float) -> IssueMark:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in quad)
    x, y = min(x for x, _ in quad), min(y for _, y in quad)
    return IssueMark(points, numbers, x, max(y - size / 4, size))


def list_expected(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """List the expected strings, with verdict and diff if they have been compared."""
    if result.get("strings") is not None:
        return [string | {"diff": _get_diff(string)} for string in result["strings"]]
    return [
        {"expected": text, "verdict": None, "diff": ()} for text in result.get("reference") or ()
    ]


def _get_diff(string: Mapping[str, Any]) -> Sequence[comparison.DiffSegment]:
    differs = string["found"] and string["verdict"] != comparison.Verdict.MATCH
    return comparison.diff(string["expected"], string["found"]) if differs else ()


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


class ReportFormat(enum.StrEnum):
    """Formats of a report."""

    HTML = "html"
    CSV = "csv"
    JSON = "json"


MEDIA_TYPES = {
    ReportFormat.HTML: "text/html; charset=utf-8",
    ReportFormat.CSV: "text/csv; charset=utf-8",
    ReportFormat.JSON: "application/json",
}

_STATUS_NOTES = {
    "PENDING": "The job is queued; no pictures have been read yet.",
    "PROCESSING": "The job is in progress; unread pictures have no result.",
    "SUCCEEDED": "",
    "FAILED": "The job failed; unread pictures have no result.",
    "CANCELLED": "The job was cancelled; unread pictures have no result.",
}
_YES_NO = {True: "yes", False: "no", None: ""}
# Spreadsheets treat cells that begin like this as formulas; some locales accept fullwidth signs.
_FORMULA = re.compile(
    "[=+\\-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]"
)
# Characters that are invalid in HTML.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def render(job: Mapping[str, Any], report_format: ReportFormat) -> str:
    """Return the report of a job in one of the formats."""
    renderers = {
        ReportFormat.HTML: render_html,
        ReportFormat.CSV: render_csv,
        ReportFormat.JSON: render_json,
    }
    return renderers[report_format](job)


def render_json(job: Mapping[str, Any]) -> str:
    """Return the job as JSON."""
    return json.dumps(job, ensure_ascii=False, indent=2) + "\n"


def render_csv(job: Mapping[str, Any]) -> str:
    """Return a table with one row per issue, and one per picture without issues.

    It begins with a byte order mark; without one, spreadsheets do not detect UTF-8.
    """
    out = io.StringIO(newline="")
    rows = csv.DictWriter(out, COLUMNS, restval="", extrasaction="ignore")
    rows.writeheader()
    for result in job["results"]:
        for row in _make_rows(result):
            rows.writerow({column: _escape_formula(row.get(column)) for column in COLUMNS})
    return "\N{ZERO WIDTH NO-BREAK SPACE}" + out.getvalue()


def _make_rows(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    flags = {key: _YES_NO[result.get(key)] for key in ("match", "languageChecked")}
    for issue in result.get("issues") or [{"message": result.get("error")}]:
        yield {**result, **flags, **issue}


def _escape_formula(cell: str | None) -> str:
    return "'" + cell if cell and _FORMULA.match(cell) else cell or ""


def render_html(job: Mapping[str, Any]) -> str:
    """Return a self-contained, printable page without scripts."""
    pictures = [
        _to_picture(number, result) for number, result in enumerate(job["results"], start=1)
    ]
    return _load_template().render(
        job=job,
        state=_STATUS_NOTES.get(job["status"], ""),
        pictures=pictures,
        counts=_count_results(job["results"]),
    )


def _count_results(results: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    verdicts = [result.get("verdict") for result in results]
    severities = [issue["severity"] for result in results for issue in result.get("issues") or ()]
    counts = {
        "pictures": len(results),
        "pass": verdicts.count(Verdict.PASS),
        "manual": verdicts.count(Verdict.MANUAL),
        "no result": verdicts.count(None),
    }
    by_severity = {f"{severity}s": severities.count(severity) for severity in Severity}
    return counts | by_severity


@dataclass(frozen=True, slots=True)
class _PictureReport:
    number: int
    result: Mapping[str, Any]
    issues: Sequence[Mapping[str, Any]]
    expected: Sequence[Mapping[str, Any]]
    frame: PictureOverlay | None


def _to_picture(number: int, result: Mapping[str, Any]) -> _PictureReport:
    issues = result.get("issues") or ()
    return _PictureReport(number, result, issues, list_expected(result), frame_issues(result))


@functools.cache
def _load_template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_replace_unprintable,
    )
    environment.filters["format_time"] = _format_time
    return environment.get_template("report.html")


def _replace_unprintable(value: Any) -> Any:  # noqa: ANN401  # any value of a template
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value


def _format_time(text: str) -> str:
    """Format a timestamp for people; return other text unchanged."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return time.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
