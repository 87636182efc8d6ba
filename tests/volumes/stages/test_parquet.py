"""The Parquet files: for us, and for everybody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from pagewarden import errors
from pagewarden.volumes.artifacts import parquet, rows
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

STAMP = parquet.Stamp("ocr", "input", "config", "model", 2)
LINE = rows.LineText(
    image_name="p1",
    line_index=0,
    line_guid="guid",
    text="བཀྲ་ཤིས། and more",
    encoding="unicode",
    confidence=0.5,
    model_version="model",
    words=[rows.LineWord(text="བཀྲ་ཤིས།", left=0.0, right=0.5, confidence=0.5)],
)
FAILED = rows.LineText(
    image_name="p2", ok=False, error_stage="ocr", error_type="OutOfMemory", error_message="too big"
)


def write(path: Path, *found: rows.LineText) -> Path:
    """Write a file of lines."""
    writer = parquet.ParquetWriter(path, parquet.OCR_RESULTS, STAMP)
    for row in found:
        writer.add(row)
    writer.close()
    return path


def read(path: Path) -> list[rows.LineText]:
    """Read it back."""
    with parquet.Reader(path, parquet.OCR_RESULTS, "key") as found:
        assert found.stamp == STAMP
        return list(found)


def test_columns_agreed_on_come_first_and_in_their_order() -> None:
    """Whoever wrote programs for these files need not change them."""
    agreed: dict[parquet.Table[Any], str] = {
        parquet.LINE_DETECTION: "image_name rotated_image_path rot_mask page_angle "
        "dewarping_applied tps_ratio filtered_contours",
        parquet.LINE_IMAGES: "image_name line_index line_image_path line_guid bbox_x bbox_y bbox_w "
        "bbox_h center_x center_y contour",
        parquet.OCR_RESULTS: "image_name line_index line_guid text encoding",
    }
    ours = "ok error_stage error_type error_message confidence model_version"
    for table, columns in agreed.items():
        expected = f"{columns} {ours}".split()
        assert table.schema.names[: len(expected)] == expected


def test_columns_are_what_rows_have() -> None:
    """A field that no column carries would be lost without a word."""
    tables = (parquet.LINE_DETECTION, parquet.LINE_IMAGES, parquet.OCR_RESULTS, parquet.COMBINED)
    for table in tables:
        assert set(table.schema.names) == set(table.row.__dataclass_fields__)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Failed ones too, and what is not there stays away."""
    assert read(write(tmp_path / "f", LINE, FAILED)) == [LINE, FAILED]
    assert read(write(tmp_path / "f", LINE))[0].error is None
    assert FAILED.error == rows.PageError("ocr", "OutOfMemory", "too big")


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    """So that two runs can be compared, and what was made of a file knows it again."""
    first, second = (write(tmp_path / name, LINE, FAILED).read_bytes() for name in "ab")
    assert first == second


def test_long_files_are_written_and_read_in_parts(tmp_path: Path) -> None:
    """What is in memory does not grow with the volume."""
    count = 3 * parquet.OCR_RESULTS.batch_rows + 1
    path = write(tmp_path / "f", *[LINE] * count)
    assert pq.ParquetFile(path).num_row_groups == 4
    assert len(read(path)) == count


def test_duckdb_reads_every_column_without_our_code(finished: books.Book) -> None:
    """SQL answers what people ask of a volume."""
    base = finished.artifacts
    with duckdb.connect() as db:
        pages = db.execute(
            f"select image_name, len(filtered_contours), octet_length(rot_mask), page_angle, ok "
            f"from '{base}/line_detection/line_detection.parquet' order by 1"
        ).fetchall()
        texts = db.execute(
            f"select l.image_name, string_agg(t.text, ' ' order by l.line_index), "
            f"min(len(l.contour)), bool_and(t.words[1].text is not null) "
            f"from '{base}/line_extraction/line_images.parquet' l "
            f"join '{base}/ocr/ocr_results.parquet' t using (line_guid) group by 1 order by 1"
        ).fetchall()
    assert [page[0] for page in pages] == ["page1", "page2", "page3"]
    assert all(lines == 2 and mask > 0 and ok for _, lines, mask, _, ok in pages)
    assert texts[0][1] == " ".join(books.TEXTS[0])
    assert all(points >= 4 and words for *_, points, words in texts)


def test_pandas_style_readers_get_plain_values(finished: books.Book) -> None:
    """Contours are nested lists, the mask is a PNG."""
    path = finished.artifacts / "line_detection" / "line_detection.parquet"
    row = pq.read_table(path).to_pylist()[0]
    assert row["rot_mask"].startswith(b"\x89PNG")
    assert all(len(point) == 2 for contour in row["filtered_contours"] for point in contour)


@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_short_is_named_and_never_taken_for_whole(
    kept: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Wherever it was cut."""
    path = write(tmp_path_factory.mktemp("cut") / "f", *[LINE] * 50)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(errors.InvalidArtifact, match=r"^key cannot be used.*Rerun the stage"):
        read(path)


@given(at=st.floats(0, 1, exclude_max=True))
def test_a_file_with_a_broken_byte_ends_in_rows_or_a_typed_error(
    at: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No error of the library gets out."""
    path = write(tmp_path_factory.mktemp("broken") / "f", *[LINE] * 50)
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 0xFF
    path.write_bytes(bytes(data))
    try:
        with parquet.Reader(path, parquet.OCR_RESULTS, "key") as found:
            list(found)
    except errors.InvalidArtifact as exc:
        assert "key" in str(exc)  # noqa: PT017  # it may as well be read


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """By the column that it lacks, or has in another form."""
    path = write(tmp_path / "f", LINE)
    with pytest.raises(errors.InvalidArtifact, match="no column 'line_image_path'"):
        parquet.Reader(path, parquet.LINE_IMAGES, "key")
    table = pq.read_table(path)
    index = table.schema.get_field_index("line_index")
    pq.write_table(table.set_column(index, "line_index", pa.array(["0"])), path)
    with pytest.raises(errors.InvalidArtifact, match="'line_index' is not of type int32"):
        parquet.Reader(path, parquet.OCR_RESULTS, "key")


def test_a_file_that_does_not_say_what_it_was_made_of_is_refused(tmp_path: Path) -> None:
    """It may be of any volume."""
    path = write(tmp_path / "f", LINE)
    pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)
    with pytest.raises(errors.InvalidArtifact, match="its origin is not recorded"):
        parquet.Reader(path, parquet.OCR_RESULTS, "key")
