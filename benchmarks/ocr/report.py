"""Report the results as tables, a verdict and JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich import table, text

from benchmarks import ocr
from benchmarks.ocr import contest, scoring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.ocr import corpus


ALL = "all"

_MIN_FAST_RATIO = 1.5
_MAX_STRAIGHTEN_SHARE = 0.05
# "Clearly below" is at most this share of the peer's CER.
_CLEARLY_BELOW_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Row:
    """The results of a contestant on one collection, or on all of them."""

    contestant: str
    collection: str
    pages: int
    score: scoring.Score
    pages_per_second: float


@dataclass(frozen=True, slots=True)
class Report:
    """All measurements; `times` has the step times of our profiles if they were measured."""

    pages: Sequence[corpus.Page]
    results: Sequence[contest.Result]
    times: Mapping[str, Mapping[str, float]]

    @property
    def collections(self) -> list[str]:
        """Return the names of the collections, in order."""
        return list(dict.fromkeys(page.collection for page in self.pages))

    def result(self, contestant: str) -> contest.Result | None:
        """Return the result of a contestant, None if it was not run."""
        return next((r for r in self.results if r.contestant == contestant), None)

    def scores(self, result: contest.Result, collection: str) -> list[scoring.Score]:
        """Return the score of each page of a collection, or of all."""
        return [
            result.scores[page.name] for page in self.pages if collection in (ALL, page.collection)
        ]

    def row(self, result: contest.Result, collection: str) -> Row:
        """Summarize a contestant on a collection."""
        scores = self.scores(result, collection)
        chosen = self.collections if collection == ALL else [collection]
        seconds = sum(result.seconds[name] for name in chosen)
        return Row(
            result.contestant,
            collection,
            len(scores),
            scoring.total(scores),
            len(scores) / seconds,
        )

    def compare_with_bare(
        self, result: contest.Result
    ) -> Iterator[tuple[str, str, scoring.Difference]]:
        """Compare a result with the better bare engine on each collection."""
        bare = [r for name in ocr.BARE_ENGINES if (r := self.result(name))]
        for collection in self.collections if bare else ():
            rival = min(bare, key=lambda r: self.row(r, collection).score.cer)
            one, other = (self.scores(r, collection) for r in (result, rival))
            yield collection, rival.contestant, scoring.compare(one, other)


def make_parts(report: Report) -> Iterator[str | table.Table | text.Text]:
    """Yield the header, the tables and the verdict."""
    yield make_header(report)
    yield make_collections_table(report)
    yield make_overall_table(report)
    yield make_ratios_table(report)
    if report.times:
        yield make_steps_table(report)
    if (bare := make_bare_table(report)) is not None:
        yield bare
    yield make_verdict(report)


def summarize(pages: Sequence[corpus.Page], result: contest.Result) -> str:
    """Return a line with the results of a contestant."""
    name, *figures = _format_figures(Report(pages, [result], {}).row(result, ALL))
    return f"{name}: CER {figures[0]}, WER {figures[1]}, {figures[2]} pages/s"


def make_header(report: Report) -> str:
    """Describe the corpus and the columns of the tables."""
    return "\n".join(
        (
            f"{len(report.pages)} pages of {len(report.collections)} collections.",
            f"{os.cpu_count()} cores; every reader is given the language.",
            "CER, WER: edits divided by the length of the ground truth; both texts are normalised.",
            "pages/s: on all cores, with models loaded. Ours and OCRmyPDF read scanned PDFs, the",
            "bare engines image files; bare Tesseract runs one process per core.",
            "CPU: of all processes of a reader, including its start; memory: their joint peak.",
        )
    )


def make_overall_table(report: Report) -> table.Table:
    """Make a table of all contestants on all pages."""
    grid = _make_grid("All pages", ["reader", "CER", "WER", "pages/s", "CPU s/page", "memory"])
    for result in report.results:
        row = report.row(result, ALL)
        costs = [f"{result.cpu_seconds / row.pages:.2f}", f"{result.peak_bytes / 1e6:,.0f} MB"]
        grid.add_row(*_format_figures(row), *costs)
    return grid


def make_ratios_table(report: Report) -> table.Table:
    """Make a table of speed and CER of each contestant relative to each peer."""
    peers = [report.row(r, ALL) for name in ocr.PEERS if (r := report.result(name))]
    grid = _make_grid("Speed and CER relative to", ["reader", *(p.contestant for p in peers)])
    for result in report.results:
        row = report.row(result, ALL)
        cells = (
            (row.pages_per_second / p.pages_per_second, row.score.cer / (p.score.cer or 1))
            for p in peers
        )
        grid.add_row(row.contestant, *(f"{speed:.2f} x, {cer:.2f}" for speed, cer in cells))
    return grid


def make_steps_table(report: Report) -> table.Table:
    """Make a table of the step times of our profiles."""
    grid = _make_grid("Steps of a page: CPU s, share", ["reader", *contest.STEPS])
    for profile, seconds in report.times.items():
        whole = sum(seconds.values())
        pages = min(contest.STEP_PAGES, len(report.pages))
        cells = (
            f"{seconds[s] / pages:.3f}, {100 * seconds[s] / whole:.1f}%" for s in contest.STEPS
        )
        grid.add_row(profile, *cells)
    return grid


def make_collections_table(report: Report) -> table.Table:
    """Make a table of all contestants on each collection."""
    grid = _make_grid("By collection", ["collection", "pages", "reader", "CER", "WER", "pages/s"])
    for collection in report.collections:
        for result in report.results:
            row = report.row(result, collection)
            grid.add_row(collection, str(row.pages), *_format_figures(row))
        grid.add_section()
    return grid


def make_bare_table(report: Report) -> table.Table | None:
    """Make a table of our accurate profile against the better bare engine of each collection."""
    result = report.result("accurate")
    if result is None or not list(report.compare_with_bare(result)):
        return None
    columns = ["collection", "better bare engine", "difference", "low", "high", ""]
    grid = _make_grid("accurate: CER minus that of the better bare engine, 95 % interval", columns)
    for collection, rival, gap in report.compare_with_bare(result):
        figures = [f"{100 * value:+.2f}%" for value in (gap.mean, gap.low, gap.high)]
        grid.add_row(collection, rival, *figures, "worse" if gap.is_worse else "")
    return grid


def make_verdict(report: Report) -> text.Text:
    """Return a line for each goal: whether it is reached."""
    lines = [
        (f"{'reached' if reached else 'NOT REACHED'}: {goal}", "green" if reached else "red")
        for goal, reached in _check_goals(report)
    ]
    return text.Text("\n").join(text.Text(line, style) for line, style in lines)


def to_json(report: Report) -> str:
    """Return all figures as JSON, including those of each page."""
    rows = [
        report.row(result, collection)
        for result in report.results
        for collection in (ALL, *report.collections)
    ]
    accurate = report.result("accurate")
    content = {
        "cores": os.cpu_count(),
        "rows": [
            dataclasses.asdict(row) | {"cer": row.score.cer, "wer": row.score.wer} for row in rows
        ],
        "accurate_above_better_bare_engine": [
            {"collection": collection, "rival": rival, **dataclasses.asdict(gap)}
            for collection, rival, gap in (report.compare_with_bare(accurate) if accurate else ())
        ],
        "cpu_seconds": {name: dict(steps) for name, steps in report.times.items()},
        "aims": dict(_check_goals(report)),
        "results": [dataclasses.asdict(result) for result in report.results],
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def _check_goals(report: Report) -> Iterator[tuple[str, bool]]:
    rows = {result.contestant: report.row(result, ALL) for result in report.results}
    yield from _check_against_ocrmypdf(rows)
    yield from _check_accurate(report, rows)
    for name in ocr.PROFILES:
        if ours := rows.get(name):
            better = [p for p in ocr.PEERS if p in rows and _beats(rows[p], ours)]
            yield f"{name}: no peer is both faster and more accurate", not better
    for name, steps in report.times.items():
        share = steps["straighten"] / sum(steps.values())
        yield f"{name}: straightening takes less than 5%", share < _MAX_STRAIGHTEN_SHARE


def _check_against_ocrmypdf(rows: Mapping[str, Row]) -> Iterator[tuple[str, bool]]:
    peer = rows.get(ocr.OCRMYPDF)
    if peer and (fast := rows.get("fast")):
        ratio = fast.pages_per_second / peer.pages_per_second
        yield "fast: 1.5 times as fast as OCRmyPDF", ratio >= _MIN_FAST_RATIO
        yield "fast: CER no more than OCRmyPDF's", fast.score.cer <= peer.score.cer
    if peer and (balanced := rows.get("balanced")):
        faster = balanced.pages_per_second > peer.pages_per_second
        yield "balanced: faster than OCRmyPDF", faster
        clearly = balanced.score.cer <= _CLEARLY_BELOW_SHARE * peer.score.cer
        yield "balanced: CER clearly below OCRmyPDF's", clearly


def _check_accurate(report: Report, rows: Mapping[str, Row]) -> Iterator[tuple[str, bool]]:
    result, rapid = report.result("accurate"), rows.get(ocr.RAPIDOCR)
    if result is None:
        return
    if rapid:
        faster = rows["accurate"].pages_per_second > rapid.pages_per_second
        yield "accurate: faster than bare RapidOCR", faster
    worse = [name for name, _, gap in report.compare_with_bare(result) if gap.is_worse]
    yield "accurate: on no collection worse than the better bare engine", not worse


def _beats(peer: Row, ours: Row) -> bool:
    return peer.pages_per_second > ours.pages_per_second and peer.score.cer < ours.score.cer


def _make_grid(title: str, columns: Sequence[str]) -> table.Table:
    grid = table.Table(title=title, header_style="bold")
    for name in columns:
        is_text = name in ("reader", "collection", "better bare engine")
        side: Literal["left", "right"] = "left" if is_text else "right"
        grid.add_column(name, justify=side, no_wrap=True)
    return grid


def _format_figures(row: Row) -> list[str]:
    return [
        row.contestant,
        f"{100 * row.score.cer:.2f}%",
        f"{100 * row.score.wer:.2f}%",
        f"{row.pages_per_second:.2f}",
    ]
