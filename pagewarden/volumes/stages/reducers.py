"""Reducers: what stage `reduce` computes from a whole volume; the table of reducers is REDUCERS.

`metrics` counts pages, lines and characters. `combine` also writes combined.parquet: of several
texts of each line, read by other engines or in earlier runs, it chooses the one that agrees most
with all of them, weighted by confidence: of two texts the more confident one, of more the median.
Each line records its source.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from rapidfuzz.distance import Levenshtein

from pagewarden import errors
from pagewarden.volumes import contents
from pagewarden.volumes.artifacts import parquet, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pagewarden.volumes import artifact_keys

# Weight of an empty text, which has no confidence: the threshold below which engines drop noise.
_EMPTY_TEXT_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ReducerInput:
    """A volume, further texts of its lines, and a scratch folder for the files to publish."""

    volume: contents.VolumeContents
    others: Sequence[parquet.Reader[rows.LineText]]
    keys: artifact_keys.VolumeKeys
    scratch: Path


@dataclass(frozen=True, slots=True)
class ReducerResult:
    """Metrics of a volume, files by their keys, and the texts to export.

    texts can be iterated repeatedly; None stands for the texts of the volume itself.
    """

    metrics: Mapping[str, float | int | str]
    files: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    texts: Iterable[rows.LineText] | None = None


class Reducer(Protocol):
    """Computes the result of a whole volume."""

    def reduce(self, reducer_input: ReducerInput) -> ReducerResult:
        """Reduce a volume; raise an error of pagewarden.errors."""
        ...


class Metrics:
    """Counts pages, lines and characters."""

    def reduce(self, reducer_input: ReducerInput) -> ReducerResult:
        """Count the pages of the volume."""
        return ReducerResult(count_pages(reducer_input.volume.iterate_pages()))


class CombineReducer:
    """Writes combined.parquet, and counts its contents."""

    def reduce(self, reducer_input: ReducerInput) -> ReducerResult:
        """Choose a text for each line."""
        path, key = reducer_input.scratch / parquet.COMBINED.name, reducer_input.keys.combined
        choices = _write_combined(reducer_input, path)
        combined = parquet.Reader(path, parquet.COMBINED, key)
        totals = count_pages(reducer_input.volume.iterate_pages(combined))
        return ReducerResult({**totals, **choices}, {key: path}, combined)


REDUCERS: Mapping[str, Reducer] = MappingProxyType(
    {"metrics": Metrics(), "combine": CombineReducer()}
)


# Counting ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _VolumeTotals:
    """Columns of volume_results, and a few more.

    Blank pages have no lines; unread pages have lines without text. mean_confidence is weighted by
    the length of the lines.
    """

    total_images: int = 0
    total_lines: int = 0
    total_characters: int = 0
    dewarping_applied_count: int = 0
    failed_images: int = 0
    blank_images: int = 0
    unread_images: int = 0
    confidence_sum: float = 0.0

    def add(self, page: contents.Page) -> None:
        characters = sum(len(text.text or "") for text in page.texts)
        self.total_images += 1
        self.total_lines += len(page.lines)
        self.total_characters += characters
        self.dewarping_applied_count += bool(page.detected.dewarping_applied)
        self.failed_images += page.error is not None
        self.blank_images += page.error is None and not page.lines
        self.unread_images += bool(page.lines) and not characters
        self.confidence_sum += sum(
            (text.confidence or 0.0) * len(text.text or "") for text in page.texts
        )

    def as_metrics(self) -> dict[str, float | int | str]:
        return {
            "total_images": self.total_images,
            "total_lines": self.total_lines,
            "total_characters": self.total_characters,
            "dewarping_applied_count": self.dewarping_applied_count,
            "failed_images": self.failed_images,
            "blank_images": self.blank_images,
            "unread_images": self.unread_images,
            "mean_confidence": self.confidence_sum / max(self.total_characters, 1),
        }


def count_pages(pages: Iterable[contents.Page]) -> Mapping[str, float | int | str]:
    """Return the totals of pages as metrics."""
    totals = _VolumeTotals()
    for page in pages:
        totals.add(page)
    return totals.as_metrics()


# Combining --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: rows.LineText
    source: str

    @property
    def normalized(self) -> str:
        return " ".join((self.text.text or "").split())

    @property
    def weight(self) -> float:
        return (self.text.confidence or 0.0) if self.normalized else _EMPTY_TEXT_WEIGHT


def _write_combined(reducer_input: ReducerInput, path: Path) -> dict[str, int]:
    """Write the best text of each line; count lines with a choice, and texts of other sources."""
    volume = reducer_input.volume
    sources = [volume.texts, *reducer_input.others]
    writer = parquet.ParquetWriter(path, parquet.COMBINED, _make_combined_stamp(sources))
    rows_by_source = [(source.key, contents.RowsByPage(source)) for source in sources]
    line_count = with_choice = from_elsewhere = 0
    for image_name, page in itertools.groupby(volume.lines, key=lambda line: line.image_name):
        lines = list(page)
        texts = [
            (key, source_rows.get_page_rows(image_name)) for key, source_rows in rows_by_source
        ]
        candidates = _group_by_line(lines, texts)
        if all(candidates):
            found = [_to_row(line, each) for line, each in zip(lines, candidates, strict=True)]
        else:
            source_rows = [*lines, *(text for _, page_texts in texts for text in page_texts)]
            found = [_make_failed_row(image_name, source_rows)]
        for row in found:
            writer.add(row)
            from_elsewhere += row.ok and row.source != sources[0].key
        line_count += len(lines)
        with_choice += sum(len(each) > 1 for each in candidates)
    writer.close()
    if line_count and not with_choice:
        raise errors.InvalidArtifact(
            f"no source ({', '.join(source.key for source in reducer_input.others)}) has the lines "
            f"of {volume.lines.key}. Specify texts that were read from the same lines."
        )
    return {"lines_with_choice": with_choice, "lines_from_elsewhere": from_elsewhere}


def _make_combined_stamp(sources: Sequence[parquet.Reader[rows.LineText]]) -> parquet.Stamp:
    """Record the digests of the volume's own texts and of the others."""
    own, *others = sources
    digests = "".join(source.digest for source in others)
    others_digest = hashlib.sha256(digests.encode()).hexdigest()
    return parquet.Stamp("reduce", own.digest, others_digest, "", own.stamp.pages)


def _group_by_line(
    lines: Sequence[rows.LineImage], texts: Sequence[tuple[str, Sequence[rows.LineText]]]
) -> list[list[_Candidate]]:
    """Return the texts of each line of a page; failed pages of a source have none."""
    found: dict[str | None, list[_Candidate]] = {line.line_guid: [] for line in lines}
    for key, page_texts in texts:
        for text in page_texts:
            if text.ok and text.line_guid in found:
                found[text.line_guid].append(_Candidate(text, key))
    return [found[line.line_guid] for line in lines]


def _to_row(line: rows.LineImage, candidates: Sequence[_Candidate]) -> rows.CombinedText:
    best = _choose_text(candidates)
    return rows.CombinedText(
        image_name=line.image_name,
        line_index=line.line_index,
        line_guid=line.line_guid,
        text=best.text.text,
        encoding=best.text.encoding,
        confidence=best.text.confidence,
        model_version=best.text.model_version,
        words=best.text.words,
        source=best.source,
        agreeing=sum(candidate.normalized == best.normalized for candidate in candidates),
    )


def _make_failed_row(image_name: str, source_rows: Sequence[rows.Row]) -> rows.CombinedText:
    """Return the row of a page without a text for each line, with the first error of any source."""
    default = rows.PageError(
        "ocr", errors.ReadingError.__name__, "no source contains text for all of its lines"
    )
    error = next((row.error for row in source_rows if row.error), default)
    return rows.CombinedText(
        image_name=image_name,
        ok=False,
        error_stage=error.stage,
        error_type=error.type,
        error_message=error.message,
    )


def _choose_text(candidates: Sequence[_Candidate]) -> _Candidate:
    """Choose the text that agrees most with all others; the first one if several do."""
    if len({candidate.text.encoding for candidate in candidates}) > 1:
        raise errors.InvalidArtifact(
            f"{' and '.join(candidate.source for candidate in candidates)} have different "
            "encodings. Read them again with the same encoding."
        )
    return max(candidates, key=lambda candidate: _rate_agreement(candidate, candidates))


def _rate_agreement(candidate: _Candidate, candidates: Sequence[_Candidate]) -> float:
    return sum(
        other.weight * Levenshtein.normalized_similarity(candidate.normalized, other.normalized)
        for other in candidates
    )
