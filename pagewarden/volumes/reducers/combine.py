"""The reducer 'combine': of several texts of each line, by other engines or earlier runs, the best.

The best is what the others say most alike, each weighed by how sure it is: of two texts the surer
one, of more of them the one in the middle. Each line says where it was taken from.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rapidfuzz.distance import Levenshtein

from pagewarden import errors
from pagewarden.volumes import contents
from pagewarden.volumes.artifacts import parquet, rows
from pagewarden.volumes.reducers import interface, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# How sure somebody is who says that there is no text: as sure as engines have to be of noise.
_SILENCE = 0.5


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: rows.LineText
    source: str

    @property
    def folded(self) -> str:
        return " ".join((self.text.text or "").split())

    @property
    def weight(self) -> float:
        return (self.text.confidence or 0.0) if self.folded else _SILENCE


class Combine:
    """Writes combined.parquet, and counts what is in it."""

    def reduce(self, given: interface.Given) -> interface.Reduced:
        """Choose line by line."""
        path = given.scratch / parquet.COMBINED.name
        taken = _write(given, path)
        combined = parquet.Reader(path, parquet.COMBINED, given.keys.combined)
        figures = metrics.count(given.volume.pages(combined))
        return interface.Reduced({**figures, **taken}, {given.keys.combined: path}, combined)


def _write(given: interface.Given, path: Path) -> dict[str, int]:
    """Write the best of each line; counts those with a choice, and those taken from elsewhere."""
    sources = [given.volume.texts, *given.others]
    writer = parquet.Writer(path, parquet.COMBINED, _stamp(sources))
    texts = [(source.key, contents.Grouped(source)) for source in sources]
    with_choice = from_elsewhere = 0
    for _, group in itertools.groupby(given.volume.lines, key=lambda line: line.image_name):
        lines = list(group)
        candidates = _candidates(lines, texts)
        for row in _combined(lines, candidates):
            writer.add(row)
            from_elsewhere += row.ok and row.source != sources[0].key
        with_choice += sum(len(each) > 1 for each in candidates)
    writer.close()
    if not with_choice:
        raise errors.ArtifactUnusable(
            f"none of {', '.join(source.key for source in given.others)} is of the lines of "
            f"{given.volume.lines.key}. Give texts that were read from the same lines."
        )
    return {"lines_with_choice": with_choice, "lines_from_elsewhere": from_elsewhere}


def _stamp(sources: Sequence[parquet.Reader[rows.LineText]]) -> parquet.Stamp:
    digests = "".join(source.digest for source in sources)
    made_of = hashlib.sha256(digests.encode()).hexdigest()
    return parquet.Stamp("reduce", made_of, "combine", "", sources[0].stamp.pages)


def _candidates(
    lines: Sequence[rows.LineImage],
    texts: Sequence[tuple[str, contents.Grouped[rows.LineText]]],
) -> list[list[_Candidate]]:
    """Find what the sources say of each line of a page; one that failed at it says nothing."""
    found: dict[str | None, list[_Candidate]] = {line.line_guid: [] for line in lines}
    for key, source in texts:
        for text in source.of(lines[0].image_name):
            if text.ok and text.line_guid in found:
                found[text.line_guid].append(_Candidate(text, key))
    return [found[line.line_guid] for line in lines]


def _combined(
    lines: Sequence[rows.LineImage], candidates: Sequence[Sequence[_Candidate]]
) -> Iterator[rows.CombinedText]:
    """Give the rows of a page, or the one that says that nobody has read it."""
    if all(candidates):
        yield from (
            _row(line, _best(said), said) for line, said in zip(lines, candidates, strict=True)
        )
        return
    trouble = lines[0].trouble
    yield rows.CombinedText(
        image_name=lines[0].image_name,
        ok=False,
        error_stage=trouble.stage if trouble else "ocr",
        error_type=trouble.type if trouble else errors.ReadingError.__name__,
        error_message=trouble.message if trouble else "no source has read all of its lines",
    )


def _best(said: Sequence[_Candidate]) -> _Candidate:
    """Choose the text that all say most alike; of equals the first."""
    if len({candidate.text.encoding for candidate in said}) > 1:
        raise errors.ArtifactUnusable(
            f"{' and '.join(candidate.source for candidate in said)} are not in the same encoding. "
            "Read them again with the same one."
        )
    return max(said, key=lambda candidate: _support(candidate, said))


def _support(candidate: _Candidate, said: Sequence[_Candidate]) -> float:
    return sum(
        other.weight * Levenshtein.normalized_similarity(candidate.folded, other.folded)
        for other in said
    )


def _row(line: rows.LineImage, best: _Candidate, said: Sequence[_Candidate]) -> rows.CombinedText:
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
        agreeing=sum(candidate.folded == best.folded for candidate in said),
    )


REDUCER = Combine()
