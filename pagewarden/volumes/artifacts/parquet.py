"""Write and read the Parquet files of the stages in batches of rows.

Output is deterministic: a file contains neither dates nor its writer, so equal rows give equal
bytes.
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
    """A kind of file: its name, row type, columns, and number of rows held in memory."""

    name: str
    row: type[R]
    schema: pa.Schema
    batch_rows: int


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
    batch_rows=64,
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
    batch_rows=1024,
)
OCR_RESULTS = Table("ocr_results.parquet", rows.LineText, pa.schema(_TEXTS), batch_rows=1024)
COMBINED = Table(
    "combined.parquet",
    rows.CombinedText,
    pa.schema([*_TEXTS, ("source", pa.string()), ("agreeing", pa.int32())]),
    batch_rows=1024,
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The origin of a file: digests of input and config, and the version of the model.

    pages is the page count of the volume, including blank and failed pages.
    """

    stage: str
    input: str
    config: str
    model: str
    pages: int

    def to_metadata(self) -> dict[bytes, bytes]:
        """Convert to metadata of a Parquet file."""
        return {_STAMP: json.dumps(dataclasses.asdict(self)).encode()}


class ParquetWriter(Generic[R]):
    """Writes a file row by row; close() completes it."""

    def __init__(self, path: Path, table: Table[R], stamp: Stamp) -> None:
        self._path = path
        self._table = table
        self._schema = table.schema.with_metadata(stamp.to_metadata())
        self._writer = parquet.ParquetWriter(path, self._schema, compression=_COMPRESSION)
        self._batch: list[dict[str, object]] = []

    def add(self, row: R) -> None:
        """Add a row; full batches are written to the file."""
        self._batch.append({name: getattr(row, name) for name in self._schema.names})
        if len(self._batch) >= self._table.batch_rows:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            self._writer.write_table(pa.Table.from_pylist(self._batch, self._schema))
            self._batch.clear()

    def close(self) -> None:
        """Write the last batch, and sync the file to disk."""
        self._flush()
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())


class Reader(Generic[R]):
    """Reads a published file; raises InvalidArtifact if it is damaged or of another kind.

    digest is the SHA-256 of the file.
    """

    def __init__(self, path: Path, table: Table[R], key: str) -> None:
        self._table = table
        self._path = path
        self._key = key
        with self._translate_errors():
            self._file = parquet.ParquetFile(path)
            self.digest = _digest(path)
        self._check_columns()
        self.stamp = self._read_stamp()

    @property
    def key(self) -> str:
        """Return the key of the file in its bucket."""
        return self._key

    def __iter__(self) -> Iterator[R]:
        names = self._table.schema.names
        # Damage far into the file is only found here.
        with self._translate_errors():
            for batch in self._file.iter_batches(self._table.batch_rows, columns=names):
                for row in batch.to_pylist():
                    yield self._table.row(**row)

    def select(self, *columns: str, where: compute.Expression | None = None) -> Iterator[R]:
        """Iterate over the matching rows, with these columns only; image_name must be one of them.

        Row groups that cannot match are not read.
        """
        with self._translate_errors():
            matches = parquet.read_table(
                self._path, columns=list(columns), filters=where, partitioning=None
            )
            for batch in matches.to_batches(self._table.batch_rows):
                for row in batch.to_pylist():
                    yield self._table.row(**row)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_columns(self) -> None:
        schema = self._file.schema_arrow
        for field in self._table.schema:
            if field.name not in schema.names:
                raise self._make_invalid_error(f"it has no column {field.name!r}")
            if schema.field(field.name).type != field.type:
                raise self._make_invalid_error(
                    f"its column {field.name!r} is not of type {field.type}"
                )

    def _read_stamp(self) -> Stamp:
        try:
            return Stamp(**json.loads((self._file.schema_arrow.metadata or {})[_STAMP]))
        except (KeyError, TypeError, ValueError) as exc:
            raise self._make_invalid_error("its origin is not recorded in its metadata") from exc

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        # Damaged files make the library raise undocumented exceptions too.
        except Exception as exc:
            raise self._make_invalid_error("it is truncated, or not a Parquet file") from exc

    def _make_invalid_error(self, reason: str) -> errors.InvalidArtifact:
        return errors.InvalidArtifact(
            f"{self._key} cannot be used: {reason}. Rerun the stage that creates it."
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
