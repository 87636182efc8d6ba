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
    from collections.abc import Sequence
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
    count = with_choice = from_elsewhere = 0
    for name, group in itertools.groupby(given.volume.lines, key=lambda line: line.image_name):
        lines = list(group)
        said = [(key, source.of(name)) for key, source in texts]
        candidates = _candidates(lines, said)
        if all(candidates):
            found = [_row(line, each) for line, each in zip(lines, candidates, strict=True)]
        else:
            found = [_failed(name, [*lines, *(text for _, its in said for text in its)])]
        for row in found:
            writer.add(row)
            from_elsewhere += row.ok and row.source != sources[0].key
        count += len(lines)
        with_choice += sum(len(each) > 1 for each in candidates)
    writer.close()
    if count and not with_choice:
        raise errors.ArtifactUnusable(
            f"none of {', '.join(source.key for source in given.others)} is of the lines of "
            f"{given.volume.lines.key}. Give texts that were read from the same lines."
        )
    return {"lines_with_choice": with_choice, "lines_from_elsewhere": from_elsewhere}


def _stamp(sources: Sequence[parquet.Reader[rows.LineText]]) -> parquet.Stamp:
    """Say of which texts of this volume it was made, as files of stages do, and of which others."""
    own, *others = sources
    digests = "".join(source.digest for source in others)
    made_of = hashlib.sha256(digests.encode()).hexdigest()
    return parquet.Stamp("reduce", own.digest, made_of, "", own.stamp.pages)


def _candidates(
    lines: Sequence[rows.LineImage], said: Sequence[tuple[str, Sequence[rows.LineText]]]
) -> list[list[_Candidate]]:
    """Sort what the sources say of a page by its lines; one that failed at it says nothing."""
    found: dict[str | None, list[_Candidate]] = {line.line_guid: [] for line in lines}
    for key, texts in said:
        for text in texts:
            if text.ok and text.line_guid in found:
                found[text.line_guid].append(_Candidate(text, key))
    return [found[line.line_guid] for line in lines]


def _failed(image_name: str, found: Sequence[rows.Row]) -> rows.CombinedText:
    """Say that nobody has read a page, as the first of those said who failed at it."""
    nobody = rows.Trouble(
        "ocr", errors.ReadingError.__name__, "no source has read all of its lines"
    )
    trouble = next((row.trouble for row in found if row.trouble), nobody)
    return rows.CombinedText(
        image_name=image_name,
        ok=False,
        error_stage=trouble.stage,
        error_type=trouble.type,
        error_message=trouble.message,
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


def _row(line: rows.LineImage, said: Sequence[_Candidate]) -> rows.CombinedText:
    best = _best(said)
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
