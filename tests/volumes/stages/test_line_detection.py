"""Line detection: pages set upright, lines found, and what becomes of bad pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from pagewarden import errors
from pagewarden.ocr.images import pixels
from pagewarden.volumes import artifacts, dewarping
from pagewarden.volumes.artifacts import folder, rows
from tests.ocr import printed
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

STAGE = "line_detection"


async def test_every_line_is_found_and_the_page_is_kept(finished: books.Book) -> None:
    """Where a line was printed, there is a contour; the rotated image is beside."""
    page = finished.detected()[0]
    placed = printed.placed(books.TEXTS[0])
    for text, contour in zip(books.TEXTS[0], sorted(page.filtered_contours, key=_top), strict=True):
        words = [word for word in placed if word.text in text.split()]
        xs, ys = zip(*contour, strict=True)
        assert words[0].box.top < min(ys) < max(ys) < words[0].box.bottom
        assert len(xs) >= 4
    with Image.open(finished.root / "output" / (page.rotated_image_path or "")) as image:
        assert image.format == "JPEG"
        assert image.size == (page.rotated_width, page.rotated_height) == (page.width, page.height)
    assert (page.page_angle, page.dewarping_applied, page.tps_ratio) == (0.0, False, None)
    assert page.confidence == pytest.approx(np.mean(page.contour_confidences))
    assert "PP-OCR" in page.model_version


async def test_the_mask_shows_the_cores_of_lines(finished: books.Book) -> None:
    """White where contours are, in a smaller picture of the same page."""
    page = finished.detected()[0]
    mask = np.asarray(Image.open(io.BytesIO(page.rot_mask or b"")))
    scale = np.array(mask.shape[::-1]) / ((page.rotated_width or 0), (page.rotated_height or 0))
    for contour in page.filtered_contours:
        x, y = (np.mean(contour, axis=0) * scale).astype(int)
        assert mask[y, x]
    assert 0 < mask.mean() < 0.5


@pytest.mark.parametrize(("turn", "skew"), [(0, 5.0), (90, 0.0), (180, 0.0), (270, -3.0)])
async def test_a_page_is_turned_back_by_its_angle(tmp_path: Path, turn: int, skew: float) -> None:
    """And places on it lead back to the original."""
    book = books.Book(tmp_path)
    lines = [*printed.ENGLISH, *printed.ENGLISH]
    upright = printed.page(lines, size=30).pixels
    original = pixels.rotate_quarter(pixels.deskew(upright, -skew), turn)
    book.add_pixels("p.png", original)
    await book.run(STAGE)
    (page,) = book.detected()
    assert (page.page_angle or 0.0) % 360 == pytest.approx((-turn - skew) % 360, abs=0.3)
    assert len(page.filtered_contours) == len(lines)
    for contour in page.filtered_contours:
        ((x, y),) = dewarping.OriginalMapping(page).map_points([np.mean(contour, axis=0).tolist()])
        around = original[int(y) - 12 : int(y) + 12, int(x) - 40 : int(x) + 40]
        assert (around < 128).mean() > 0.05


async def test_one_bad_page_is_named_and_the_others_go_on(book: books.Book) -> None:
    """Its row says at which stage, what, and why."""
    (book.originals / "page2.png").write_bytes(b"\x89PNG\r\n\x1a\nnot much more")
    done = await book.with_config(failed_pages_allowed=0.5).run(STAGE)
    assert (done.pages, done.failed_pages) == (3, 1)
    good, bad, last = book.detected()
    assert good.ok
    assert last.ok
    assert not bad.ok
    assert (bad.error_stage, bad.error_type) == (STAGE, "DamagedFile")
    assert (bad.error_message or "").startswith("page2: damaged")
    assert (bad.rotated_image_path, bad.page_angle, list(bad.filtered_contours)) == (None, None, [])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", errors.EmptyFile),
        (b"GIF89a broken", errors.DamagedFile),
        (b"plain text", errors.UnsupportedFile),
    ],
)
async def test_too_many_bad_pages_fail_the_stage_with_what_most_have(
    book: books.Book, data: bytes, error: type[errors.PagewardenError]
) -> None:
    """Nothing is published, and the error says how many there were."""
    (book.originals / "page2.png").write_bytes(data)
    with pytest.raises(
        error, match=r"W22084-I0886: 1 of 3 pages failed, more than the allowed 10%"
    ) as err:
        await book.run(STAGE)
    assert err.value.category is errors.Category.PERMANENT
    assert book.digests() == {}


async def test_pages_of_a_multipage_file_are_not_lost_silently(book: books.Book) -> None:
    """A volume has a file for each page."""
    pages = [Image.new("L", (50, 50), 255)] * 3
    pages[0].save(book.originals / "many.tif", save_all=True, append_images=pages[1:])
    await book.with_config(failed_pages_allowed=0.5).run(STAGE)
    (bad,) = (page for page in book.detected() if not page.ok)
    assert bad.error_type == "UnsupportedFile"
    assert "the file has 3 pages" in (bad.error_message or "")


async def test_names_of_pages(tmp_path: Path) -> None:
    """In the order of their numbers, apart where only suffixes differ, whatever lies beside."""
    book = books.Book(tmp_path)
    for name in ("p10.png", "p9.png", "p9.tif", "p9.tif.gif", "inner/p1.JPG"):
        (book.originals / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (60, 40), 255).save(book.originals / name)
    (book.originals / "dimensions.json").write_text("{}")
    (book.originals / ".hidden.png").write_bytes(b"")
    done = await book.run(STAGE)
    names = ["inner/p1", "p9.png", "p9.tif", "p9.tif.gif", "p10"]
    assert [page.image_name for page in book.detected()] == names
    assert (book.artifacts / "line_detection/rotated_images/inner/p1.jpg").exists()
    assert done.failed_pages == 0


async def test_a_blank_page_is_a_good_page_without_lines(tmp_path: Path) -> None:
    """Nobody is to look for what went wrong."""
    book = books.Book(tmp_path)
    book.add_pixels("blank.png", np.full((400, 300), 255, np.uint8))
    await book.run(STAGE)
    (page,) = book.detected()
    assert (page.ok, list(page.filtered_contours), page.confidence) == (True, [], None)


async def test_an_image_that_vanished_costs_its_page(book: books.Book) -> None:
    """It was listed, and is gone when its turn comes."""

    class Vanishing(folder.FolderBucket):
        async def list(self, within: str) -> AsyncGenerator[artifacts.Entry, None]:
            async for entry in super().list(within):
                yield entry
            yield artifacts.Entry(f"{within}/page4.png", 1000)

    images = Vanishing(book.root / "images")
    done = await book.with_config(failed_pages_allowed=0.5).run(STAGE, input=images)
    assert (done.pages, done.failed_pages) == (4, 1)
    bad = book.detected()[3]
    assert (bad.image_name, bad.error_type) == ("page4", "FileNotFound")
    assert "there is no file" in (bad.error_message or "")


async def test_a_page_with_an_unfit_name_is_not_lost(book: books.Book) -> None:
    """Keys of others may be anything; this one no folder could hold."""

    class Odd(folder.FolderBucket):
        async def list(self, within: str) -> AsyncGenerator[artifacts.Entry, None]:
            async for entry in super().list(within):
                yield entry
            yield artifacts.Entry(f"{within}/a:b?.png", 1000, "etag")

    images = Odd(book.root / "images")
    await book.with_config(failed_pages_allowed=0.5).run(STAGE, input=images)
    (bad,) = (page for page in book.detected() if not page.ok)
    assert (bad.image_name, bad.error_type) == ("a:b?", "UnsafePath")


@pytest.mark.parametrize(
    "name",
    ["~p.png", "u\N{COMBINING DIAERESIS}.png", f"{'p' * 248}.png"],
    ids=["tilde", "mac", "long"],
)
async def test_an_unfit_name_in_a_folder_costs_its_page_only(book: books.Book, name: str) -> None:
    """Pictures of its lines have names that are longer still."""
    book.add("page1.png", books.TEXTS[0]).rename(book.originals / name)
    done = await book.with_config(failed_pages_allowed=0.5).run(STAGE, "line_extraction")
    assert (done.pages, done.failed_pages) == (3, 1)
    (bad,) = (page for page in book.detected() if not page.ok)
    assert (bad.image_name, bad.error_type) == (name.removesuffix(".png"), "UnsafePath")


async def test_places_of_an_enormous_page_are_those_of_its_file(tmp_path: Path) -> None:
    """It is worked on in a smaller size, and nobody else has to know."""
    book = books.Book(tmp_path)
    small = printed.page(printed.ENGLISH, size=30).pixels
    factor = int(np.sqrt(26_000_000 / small.size)) + 1
    large = np.kron(small, np.ones((factor, factor), np.uint8))
    book.add_pixels("p.png", large)
    await book.run(STAGE)
    (page,) = book.detected()
    assert (page.width, page.height) == large.shape[::-1]
    assert (page.scaled_width or 0) < 0.99 * large.shape[1]
    words = printed.placed(printed.ENGLISH, size=30)
    for row, contour in enumerate(sorted(page.filtered_contours, key=_top)):
        places = dewarping.OriginalMapping(page).map_points(contour) / factor
        of_line = [word.box for word in words if word.text in printed.ENGLISH[row].split()]
        top = min(box.top for box in of_line if box.top > places[:, 1].min() - 30)
        assert 0 < places[:, 1].mean() - top < 36
        assert abs(places[:, 0].max() - max(box.right for box in of_line)) < 30


async def test_a_volume_without_images_says_where_they_should_be(tmp_path: Path) -> None:
    """They may come a little later."""
    book = books.Book(tmp_path)
    (book.root / "images").mkdir()
    with pytest.raises(errors.FileNotFound, match=f"{book.originals}; upload them"):
        await book.run(STAGE)


async def test_an_input_bucket_that_is_not_there_is_an_outage(tmp_path: Path) -> None:
    """It is not the volume's fault."""
    with pytest.raises(errors.StoreMisconfigured):
        await books.Book(tmp_path).run(STAGE)


async def test_progress_is_told_page_by_page(book: books.Book) -> None:
    """In their order."""
    told: list[tuple[int, int]] = []
    await book.run(STAGE, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


async def test_a_given_model_finds_the_lines(book: books.Book, tmp_path: Path) -> None:
    """Here one that takes all that is dark for text; its version is that of its content."""
    model = tmp_path / "dark.onnx"
    model.write_bytes(_dark_is_text().SerializeToString())
    await book.run(STAGE, model=model)
    (page, *_) = book.detected()
    assert page.model_version.startswith("dark.onnx sha256:")
    assert len(page.filtered_contours) > len(books.TEXTS[0])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no model at all", "it is not an ONNX file"),
        (b"", "it is not an ONNX file"),
        (None, "No such file"),
    ],
)
async def test_a_model_that_is_none_is_named(
    book: books.Book, tmp_path: Path, data: bytes | None, why: str
) -> None:
    """Before any page is touched."""
    model = tmp_path / "model.onnx"
    if data is not None:
        model.write_bytes(data)
    with pytest.raises(errors.SettingsError, match=f"model.onnx.*{why}"):
        await book.run(STAGE, model=model)
    assert book.digests() == {}


async def test_a_model_for_something_else_is_named(book: books.Book, tmp_path: Path) -> None:
    """An ONNX file alone is no detector."""
    model = tmp_path / "model.onnx"
    model.write_bytes(_identity().SerializeToString())
    with pytest.raises(errors.SettingsError, match="its output is not one image"):
        await book.run(STAGE, model=model)


def _top(contour: rows.Contour) -> int:
    return min(y for _, y in contour)


def _dark_is_text() -> onnx.ModelProto:
    """Turn channels from -1 to 1 into darkness from 1 to 0, blurred over a few letters."""
    weights = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1, 3, 1, 1], [-1.0] * 3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["dark"]),
        helper.make_node("MaxPool", ["dark"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["y"], ["heat"]),
    ]
    return _model(nodes, [weights], "heat", 1)


def _identity() -> onnx.ModelProto:
    return _model([helper.make_node("Identity", ["x"], ["y"])], [], "y", 3)


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], output: str, channels: int
) -> onnx.ModelProto:
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, count, "h", "w"])
        for name, count in (("x", 3), (output, channels))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    versions = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)
