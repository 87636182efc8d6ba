"""What the contest showed: tables, a verdict, and JSON."""

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

_FAST_RATIO = 1.5
_STRAIGHTEN_SHARE = 0.05
# "Clearly below": at most so much of the peer's CER.
_CLEARLY = 0.8


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant on one collection, or on all."""

    contestant: str
    collection: str
    pages: int
    score: scoring.Score
    pages_per_second: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured; times are the steps of our profiles, where measured."""

    pages: Sequence[corpus.Page]
    results: Sequence[contest.Result]
    times: Mapping[str, Mapping[str, float]]

    @property
    def collections(self) -> list[str]:
        """Name the collections in their order."""
        return list(dict.fromkeys(page.collection for page in self.pages))

    def result(self, contestant: str) -> contest.Result | None:
        """Find what a contestant did, None if it took no part."""
        return next((r for r in self.results if r.contestant == contestant), None)

    def scores(self, result: contest.Result, collection: str) -> list[scoring.Score]:
        """Give the score of each page of a collection, or of all."""
        return [
            result.scores[page.name] for page in self.pages if collection in (ALL, page.collection)
        ]

    def row(self, result: contest.Result, collection: str) -> Row:
        """Sum up a contestant on a collection."""
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

    def against_bare(self, result: contest.Result) -> Iterator[tuple[str, str, scoring.Difference]]:
        """Compare with the better bare engine, collection by collection."""
        bare = [r for name in ocr.BARE_ENGINES if (r := self.result(name))]
        for collection in self.collections if bare else ():
            rival = min(bare, key=lambda r: self.row(r, collection).score.cer)
            one, other = (self.scores(r, collection) for r in (result, rival))
            yield collection, rival.contestant, scoring.compare(one, other)


def parts(report: Report) -> Iterator[str | table.Table | text.Text]:
    """Give all there is to show, one after another."""
    yield header(report)
    yield by_collection(report)
    yield overall(report)
    yield ratios(report)
    if report.times:
        yield steps(report)
    if (bare := bare_table(report)) is not None:
        yield bare
    yield verdict(report)


def brief(pages: Sequence[corpus.Page], result: contest.Result) -> str:
    """Say in one line what a contestant did."""
    name, *figures = _figures(Report(pages, [result], {}).row(result, ALL))
    return f"{name}: CER {figures[0]}, WER {figures[1]}, {figures[2]} pages/s"


def header(report: Report) -> str:
    """State what was measured, and how."""
    return "\n".join(
        (
            f"{len(report.pages)} pages of {len(report.collections)} collections.",
            f"{os.cpu_count()} cores; every reader is told the language.",
            "CER, WER: edits over the length of the truth, after the same normalisation of both.",
            "pages/s: on all cores, with models loaded. Ours and OCRmyPDF read scanned PDFs, the",
            "bare engines image files; bare Tesseract runs one process per core.",
            "CPU: of all processes of a reader, its start included; memory: the most at a time.",
        )
    )


def overall(report: Report) -> table.Table:
    """Show every contestant on all pages."""
    grid = _grid("All pages", ["reader", "CER", "WER", "pages/s", "CPU s/page", "memory"])
    for result in report.results:
        row = report.row(result, ALL)
        costs = [f"{result.cpu_seconds / row.pages:.2f}", f"{result.peak_bytes / 1e6:,.0f} MB"]
        grid.add_row(*_figures(row), *costs)
    return grid


def ratios(report: Report) -> table.Table:
    """Show how many times as fast as each peer everybody is, and how many times its CER."""
    peers = [report.row(r, ALL) for name in ocr.PEERS if (r := report.result(name))]
    grid = _grid("Speed and CER, as multiples of", ["reader", *(p.contestant for p in peers)])
    for result in report.results:
        row = report.row(result, ALL)
        cells = (
            (row.pages_per_second / p.pages_per_second, row.score.cer / (p.score.cer or 1))
            for p in peers
        )
        grid.add_row(row.contestant, *(f"{speed:.2f} x, {cer:.2f}" for speed, cer in cells))
    return grid


def steps(report: Report) -> table.Table:
    """Show where the time of a page goes in our profiles."""
    grid = _grid("Steps of a page: CPU s, share", ["reader", *contest.STEPS])
    for profile, spent in report.times.items():
        whole = sum(spent.values())
        pages = min(contest.STEP_PAGES, len(report.pages))
        cells = (f"{spent[s] / pages:.3f}, {100 * spent[s] / whole:.1f} %" for s in contest.STEPS)
        grid.add_row(profile, *cells)
    return grid


def by_collection(report: Report) -> table.Table:
    """Show every contestant on each collection."""
    grid = _grid("By collection", ["collection", "pages", "reader", "CER", "WER", "pages/s"])
    for collection in report.collections:
        for result in report.results:
            row = report.row(result, collection)
            grid.add_row(collection, str(row.pages), *_figures(row))
        grid.add_section()
    return grid


def bare_table(report: Report) -> table.Table | None:
    """Show our accurate profile beside the better bare engine of each collection."""
    result = report.result("accurate")
    if result is None or not list(report.against_bare(result)):
        return None
    columns = ["collection", "better bare engine", "difference", "low", "high", ""]
    grid = _grid("accurate: CER above the better bare engine, 95 % of draws", columns)
    for collection, rival, found in report.against_bare(result):
        figures = [f"{100 * value:+.2f} %" for value in (found.mean, found.low, found.high)]
        grid.add_row(collection, rival, *figures, "worse" if found.worse else "")
    return grid


def verdict(report: Report) -> text.Text:
    """Say of each aim whether it is reached."""
    lines = [
        (f"{'reached' if reached else 'NOT REACHED'}: {aim}", "green" if reached else "red")
        for aim, reached in _aims(report)
    ]
    return text.Text("\n").join(text.Text(words, style) for words, style in lines)


def to_json(report: Report) -> str:
    """Write down all figures, page by page."""
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
            {"collection": collection, "rival": rival, **dataclasses.asdict(found)}
            for collection, rival, found in (report.against_bare(accurate) if accurate else ())
        ],
        "cpu_seconds": {name: dict(steps) for name, steps in report.times.items()},
        "aims": dict(_aims(report)),
        "results": [dataclasses.asdict(result) for result in report.results],
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def _aims(report: Report) -> Iterator[tuple[str, bool]]:
    rows = {result.contestant: report.row(result, ALL) for result in report.results}
    yield from _against_ocrmypdf(rows)
    yield from _accurate(report, rows)
    for name in ocr.PROFILES:
        if ours := rows.get(name):
            better = [p for p in ocr.PEERS if p in rows and _beats(rows[p], ours)]
            yield f"{name}: no peer is both faster and more accurate", not better
    for name, steps in report.times.items():
        share = steps["straighten"] / sum(steps.values())
        yield f"{name}: straightening takes less than 5 %", share < _STRAIGHTEN_SHARE


def _against_ocrmypdf(rows: Mapping[str, Row]) -> Iterator[tuple[str, bool]]:
    peer = rows.get(ocr.OCRMYPDF)
    if peer and (fast := rows.get("fast")):
        ratio = fast.pages_per_second / peer.pages_per_second
        yield "fast: 1.5 times as fast as OCRmyPDF", ratio >= _FAST_RATIO
        yield "fast: CER no more than OCRmyPDF's", fast.score.cer <= peer.score.cer
    if peer and (balanced := rows.get("balanced")):
        faster = balanced.pages_per_second > peer.pages_per_second
        yield "balanced: faster than OCRmyPDF", faster
        clearly = balanced.score.cer <= _CLEARLY * peer.score.cer
        yield "balanced: CER clearly below OCRmyPDF's", clearly


def _accurate(report: Report, rows: Mapping[str, Row]) -> Iterator[tuple[str, bool]]:
    result, rapid = report.result("accurate"), rows.get(ocr.RAPIDOCR)
    if result is None:
        return
    if rapid:
        faster = rows["accurate"].pages_per_second > rapid.pages_per_second
        yield "accurate: faster than bare RapidOCR", faster
    worse = [collection for collection, _, found in report.against_bare(result) if found.worse]
    yield "accurate: on no collection worse than the better bare engine", not worse


def _beats(peer: Row, ours: Row) -> bool:
    return peer.pages_per_second > ours.pages_per_second and peer.score.cer < ours.score.cer


def _grid(title: str, columns: Sequence[str]) -> table.Table:
    grid = table.Table(title=title, header_style="bold")
    for name in columns:
        words = name in ("reader", "collection", "better bare engine")
        side: Literal["left", "right"] = "left" if words else "right"
        grid.add_column(name, justify=side, no_wrap=True)
    return grid


def _figures(row: Row) -> list[str]:
    return [
        row.contestant,
        f"{100 * row.score.cer:.2f} %",
        f"{100 * row.score.wer:.2f} %",
        f"{row.pages_per_second:.2f}",
    ]
