"""Write and read the Parquet files, some rows at a time; any program that knows Parquet can too.

The same rows make the same bytes: a file has no dates in it, and nothing of who wrote it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyarrow import compute, parquet

from pagewarden import errors
from pagewarden.volumes.artifacts import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

R = TypeVar("R", bound=rows.Row)

_STAMP = b"pagewarden"
_COMPRESSION = "zstd"

_POINTS = pa.list_(pa.list_(pa.int32()))
_WORDS = pa.list_(
    pa.struct(
        [
            ("text", pa.string()),
            ("left", pa.float64()),
            ("right", pa.float64()),
            ("confidence", pa.float64()),
        ]
    )
)
_COMMON: tuple[tuple[str, pa.DataType], ...] = (
    ("ok", pa.bool_()),
    ("error_stage", pa.string()),
    ("error_type", pa.string()),
    ("error_message", pa.string()),
    ("confidence", pa.float64()),
    ("model_version", pa.string()),
)
_TEXTS: tuple[tuple[str, pa.DataType], ...] = (
    ("image_name", pa.string()),
    ("line_index", pa.int32()),
    ("line_guid", pa.string()),
    ("text", pa.string()),
    ("encoding", pa.string()),
    *_COMMON,
    ("words", _WORDS),
)


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A kind of file: its name, its rows, its columns, and how many rows it holds in memory."""

    name: str
    row: type[R]
    schema: pa.Schema
    at_a_time: int


LINE_DETECTION = Table(
    "line_detection.parquet",
    rows.DetectedPage,
    pa.schema(
        [
            ("image_name", pa.string()),
            ("rotated_image_path", pa.string()),
            ("rot_mask", pa.binary()),
            ("page_angle", pa.float64()),
            ("dewarping_applied", pa.bool_()),
            ("tps_ratio", pa.float64()),
            ("filtered_contours", pa.list_(_POINTS)),
            *_COMMON,
            ("contour_confidences", pa.list_(pa.float64())),
            ("tps_points", pa.list_(pa.list_(pa.float64()))),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("dpi", pa.float64()),
            ("scaled_width", pa.int32()),
            ("scaled_height", pa.int32()),
            ("rotated_width", pa.int32()),
            ("rotated_height", pa.int32()),
            ("rotated_image_sha256", pa.string()),
            ("source_path", pa.string()),
            ("source_version", pa.string()),
        ]
    ),
    at_a_time=64,
)
LINE_IMAGES = Table(
    "line_images.parquet",
    rows.LineImage,
    pa.schema(
        [
            ("image_name", pa.string()),
            ("line_index", pa.int32()),
            ("line_image_path", pa.string()),
            ("line_guid", pa.string()),
            ("bbox_x", pa.int32()),
            ("bbox_y", pa.int32()),
            ("bbox_w", pa.int32()),
            ("bbox_h", pa.int32()),
            ("center_x", pa.int32()),
            ("center_y", pa.int32()),
            ("contour", _POINTS),
            *_COMMON,
            ("corners", pa.list_(pa.list_(pa.float64()))),
            ("block", pa.int32()),
            ("line_image_sha256", pa.string()),
        ]
    ),
    at_a_time=1024,
)
OCR_RESULTS = Table("ocr_results.parquet", rows.LineText, pa.schema(_TEXTS), at_a_time=1024)
COMBINED = Table(
    "combined.parquet",
    rows.CombinedText,
    pa.schema([*_TEXTS, ("source", pa.string()), ("agreeing", pa.int32())]),
    at_a_time=1024,
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file was made of: digests of the input and of the config, and the model's version.

    pages counts those of the volume, blank ones and failed ones too.
    """

    stage: str
    input: str
    config: str
    model: str
    pages: int

    def packed(self) -> dict[bytes, bytes]:
        """Give it the form in which it stands in the file's metadata."""
        return {_STAMP: json.dumps(dataclasses.asdict(self)).encode()}


class Writer(Generic[R]):
    """Writes a file row by row; it is complete when it is closed."""

    def __init__(self, path: Path, table: Table[R], stamp: Stamp) -> None:
        self._path = path
        self._table = table
        self._schema = table.schema.with_metadata(stamp.packed())
        self._writer = parquet.ParquetWriter(path, self._schema, compression=_COMPRESSION)
        self._held: list[dict[str, object]] = []

    def add(self, row: R) -> None:
        """Take a row; every now and then all that came are written."""
        self._held.append({name: getattr(row, name) for name in self._schema.names})
        if len(self._held) >= self._table.at_a_time:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_pylist(self._held, self._schema))
            self._held.clear()

    def close(self) -> None:
        """Write what is left, and see it safe on the disk."""
        self._flush()
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())


class Reader(Generic[R]):
    """Reads a file that was published; digest is that of all its bytes.

    ArtifactUnusable says what is wrong with one that is not whole, or not of this kind.
    """

    def __init__(self, path: Path, table: Table[R], key: str) -> None:
        self._table = table
        self._path = path
        self._key = key
        with self._guarded():
            self._file = parquet.ParquetFile(path)
            self.digest = _digest(path)
        self._check()
        self.stamp = self._unstamped()

    @property
    def key(self) -> str:
        """Name the file in its bucket."""
        return self._key

    def __iter__(self) -> Iterator[R]:
        names = self._table.schema.names
        # Damage may only show here, far into the file.
        with self._guarded():
            for batch in self._file.iter_batches(self._table.at_a_time, columns=names):
                for row in batch.to_pylist():
                    yield self._table.row(**row)

    def picked(self, *columns: str, where: compute.Expression | None = None) -> Iterator[R]:
        """Go through some rows, with these columns only; image_name must be one of them.

        Groups of rows in which there can be none are not read.
        """
        with self._guarded():
            found = parquet.read_table(
                self._path, columns=list(columns), filters=where, partitioning=None
            )
            for batch in found.to_batches(self._table.at_a_time):
                for row in batch.to_pylist():
                    yield self._table.row(**row)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        found = self._file.schema_arrow
        for field in self._table.schema:
            if field.name not in found.names:
                raise self._unusable(f"it has no column {field.name!r}")
            if found.field(field.name).type != field.type:
                raise self._unusable(f"its column {field.name!r} is not of type {field.type}")

    def _unstamped(self) -> Stamp:
        try:
            return Stamp(**json.loads((self._file.schema_arrow.metadata or {})[_STAMP]))
        except (KeyError, TypeError, ValueError) as exc:
            raise self._unusable("it does not say what it was made of") from exc

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        # Given broken bytes, the library raises what its authors did not think of, too.
        except Exception as exc:
            raise self._unusable("it is cut short, or no Parquet file") from exc

    def _unusable(self, why: str) -> errors.ArtifactUnusable:
        return errors.ArtifactUnusable(
            f"{self._key} cannot be used: {why}. Run the stage again that makes it."
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
