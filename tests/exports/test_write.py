"""Writing an export: whole or not at all, never over the original, page by page."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, exports
from pagewarden.exports.pdf import searchable
from pagewarden.ocr import pages
from tests.exports import readers, samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """Make an original of three pages."""
    return samples.scan(tmp_path / "scan.pdf", count=3)


def test_the_formats_are_those_of_the_command() -> None:
    """Names, suffixes, and which of them need the original."""
    assert {name: (form.suffix, form.needs_original) for name, form in exports.FORMATS.items()} == {
        "txt": (".txt", False),
        "json": (".json", False),
        "pdf": (".pdf", True),
        "hocr": (".hocr", False),
        "alto": (".alto.xml", False),
        "page": (".page.xml", False),
    }, "add a new format to this list"


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_the_same_pages_give_the_same_bytes(kind: str, original: Path) -> None:
    """Nothing in an export depends on the day, the place or chance."""
    targets = [original.with_name(name) for name in ("first", "second")]
    for target in targets:
        exports.write(kind, iter(samples.LETTER), original, target, name="letter")
    first, second = (target.read_bytes() for target in targets)
    assert first == second != b""


def test_a_picture_gives_the_same_bytes(tmp_path: Path) -> None:
    """Also where the PDF is made from an image."""
    samples.picture().save(tmp_path / "scan.tif")
    for name in ("first", "second"):
        searchable.searchable_pdf(tmp_path / "scan.tif", samples.LETTER[:1], tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_a_failure_leaves_what_was_there(kind: str, original: Path) -> None:
    """A reader that breaks in the middle neither replaces nor adds a file."""
    target = original.with_name("export")
    target.write_text("from last week")
    before = sorted(original.parent.iterdir())
    with pytest.raises(errors.EngineUnavailable):
        exports.write(kind, _breaking(), original, target, name="letter")
    assert target.read_text() == "from last week"
    assert sorted(original.parent.iterdir()) == before


@pytest.mark.parametrize("kind", exports.FORMATS)
def test_the_original_is_never_overwritten(kind: str, original: Path) -> None:
    """Not by its own name, and not by a link to it."""
    before = original.read_bytes()
    link = original.with_name("link")
    link.symlink_to(original)
    for target in (original, link):
        with pytest.raises(errors.SettingsError, match="is the original file"):
            exports.write(kind, samples.LETTER, original, target, name="letter")
    assert original.read_bytes() == before


def test_an_export_can_be_replaced(original: Path) -> None:
    """Writing twice leaves the second one, readable as any new file."""
    target = original.with_name("export")
    exports.write("txt", samples.LETTER, original, target, name="letter")
    exports.write("txt", samples.LETTER[2:], original, target, name="letter")
    assert readers.text_of_txt(target) == ["Best regards"]
    fresh = original.with_name("fresh")
    fresh.touch()
    assert target.stat().st_mode == fresh.stat().st_mode


def test_an_unknown_format_is_refused_with_those_there_are(original: Path) -> None:
    """The message names the choices."""
    with pytest.raises(errors.SettingsError, match="'docx'; choose from txt, json, pdf"):
        exports.write("docx", [], original, original.with_name("x"), name="letter")


@pytest.mark.parametrize(
    "kind", [name for name, form in exports.FORMATS.items() if not form.needs_original]
)
def test_pages_are_written_as_they_come(kind: str, original: Path) -> None:
    """When the last page is asked for, the others are on the disk and not in memory."""
    target, seen = original.with_name("export"), []
    long = "word" * 200  # in all more than a buffer, which is 128 kB since Python 3.14

    def many() -> Iterator[pages.ReadPage]:
        before = _pages_in_memory()
        for number in range(1, 41):
            yield samples.page(*(samples.line(long) for _ in range(20)), number=number)
        (unfinished,) = original.parent.glob(".*.part")
        seen.append((unfinished.stat().st_size, _pages_in_memory() - before))

    exports.write(kind, many(), original, target, name="letter")
    ((written, held),) = seen
    assert written > 0.5 * target.stat().st_size
    assert held < 5


def _breaking() -> Iterator[pages.ReadPage]:
    yield samples.LETTER[0]
    raise errors.EngineUnavailable("the service went away")


def _pages_in_memory() -> int:
    return sum(isinstance(item, pages.ReadPage) for item in gc.get_objects())
