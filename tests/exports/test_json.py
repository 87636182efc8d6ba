"""The JSON export holds everything, and can be read back."""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from pagewarden import errors, exports
from pagewarden.exports import base
from pagewarden.exports.json import read
from pagewarden.ocr import pages
from tests.exports import readers, samples

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "reference" / "exports.md"
ORIGINAL = Path("nothing-is-read-from-it")


@given(samples.documents())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_pages_come_back_as_they_were_exported(document: list[pages.ReadPage]) -> None:
    """Every field survives, places to the hundredth of a pixel."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "export.json"
        exports.write("json", document, ORIGINAL, target, name="letter")
        assert read(target) == [_rounded(base.clean_page(page)) for page in document]


def test_every_page_has_a_line_of_its_own(tmp_path: Path) -> None:
    """Whoever reads line by line gets page by page."""
    target = tmp_path / "letter.json"
    exports.write("json", samples.LETTER, ORIGINAL, target, name="letter", languages=["deu"])
    head, *lines, tail = target.read_text("utf-8").splitlines()
    assert json.loads(f"{head}]}}") == {
        "format": "pagewarden",
        "version": 1,
        "software": json.loads(f"{head}]}}")["software"],
        "name": "letter",
        "languages": ["deu"],
        "pages": [],
    }
    assert [json.loads(line.rstrip(","))["number"] for line in lines] == [1, 2, 3]
    assert tail == "]}"


def test_a_corrected_line_finds_its_way_into_every_format(tmp_path: Path) -> None:
    """Somebody changes a line's text in the file; nothing else needs to be changed."""
    source, first = samples.scan(tmp_path / "scan.pdf"), tmp_path / "letter.json"
    exports.write("json", [samples.page(samples.line("the qvick fox"))], source, first, name="x")
    first.write_text(first.read_text("utf-8").replace("the qvick fox", "the quick fox"), "utf-8")
    corrected = read(first)
    for kind, read_back in readers.TEXT_OF.items():
        exports.write(kind, corrected, source, tmp_path / kind, name="x")
        assert read_back(tmp_path / kind) == ["the quick fox"]
    exports.write("pdf", corrected, source, tmp_path / "letter.pdf", name="x")
    assert readers.pdfium_text(tmp_path / "letter.pdf") == ["the quick fox"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("not JSON", errors.DamagedFile),
        ("[]", errors.DamagedFile),
        ('{"version": 1, "pages": [{"number": 1}]}', errors.DamagedFile),
        ('{"version": 1, "pages": 7}', errors.DamagedFile),
        ('{"version": 2, "pages": []}', errors.UnsupportedFile),
    ],
)
def test_another_file_is_a_clear_error(
    content: str, error: type[Exception], tmp_path: Path
) -> None:
    """The message names the file and what to do."""
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(error, match=r"other\.json .*export the document again"):
        read(path)


def test_the_documented_example_is_a_file_we_read(tmp_path: Path) -> None:
    """The example of the documentation has every field, and no other."""
    (example,) = re.findall(r"```json\n(.+?)```", DOCUMENTATION.read_text("utf-8"), re.DOTALL)
    (tmp_path / "example.json").write_text(example, "utf-8")
    (page,) = read(tmp_path / "example.json")
    exports.write("json", [page], ORIGINAL, tmp_path / "again.json", name="letter.pdf")
    written = json.loads((tmp_path / "again.json").read_bytes())
    shown = json.loads(example)
    assert written["pages"] == shown["pages"]
    assert written.keys() == shown.keys()


def test_every_field_of_a_page_is_documented() -> None:
    """The tables name them all."""
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCUMENTATION.read_text("utf-8"), re.MULTILINE))
    fields = {
        field.name
        for record in (pages.ReadPage, pages.Line, pages.Word, pages.Usage)
        for field in dataclasses.fields(record)
    }
    assert fields <= documented


def test_every_format_is_documented() -> None:
    """The table of formats has each name and suffix."""
    text = DOCUMENTATION.read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\.[\w.]+)` \|", text, re.MULTILINE))
    expected = {name: form.suffix for name, form in exports.FORMATS.items()}
    assert rows == expected, "add a new format to the table in docs/reference/exports.md"


def _rounded(page: pages.ReadPage) -> pages.ReadPage:
    data = page.as_json()
    for line in data["lines"]:
        for place in (line, *line["words"]):
            place["quad"] = [(round(x, 2), round(y, 2)) for x, y in place["quad"]]
    return pages.ReadPage.from_json(data)
