from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer import testing

from benchmarks import ocr
from benchmarks.ocr import contest, contestants, corpus, report, scoring
from pagewarden import errors
from tests.reading import printed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_COLUMNS = ("file", "gt", "doc_id", "metric_hint")


def _page(
    truth: str,
    *,
    path: Path,
    collection: str = "eng",
    measure: corpus.Measure = corpus.Measure.ORDER,
    joined: bool = False,
) -> corpus.Page:
    return corpus.Page(path, truth, collection, collection, "book:1", measure, joined)


def _corpus(folder: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Print a corpus: a name and a hint of how to score it for each page."""
    lines = ["\t".join(_COLUMNS)]
    for name, hint in rows:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(printed.page(printed.ENGLISH).pixels).save(target)
        target.with_suffix(".gt.txt").write_text("\n".join(printed.ENGLISH), encoding="utf-8")
        lines.append("\t".join((name, str(target.with_suffix(".gt.txt")), "book:1", hint)))
    (folder / corpus.MANIFEST).write_text("\n".join(lines), encoding="utf-8")
    return folder


def _score(wrong: int, characters: int = 1000) -> scoring.Score:
    return scoring.Score(wrong, characters, wrong, characters // 5)


def _result(name: str, page: corpus.Page, wrong: int, seconds: float) -> contest.Result:
    result = contest.Result(name, seconds={page.collection: seconds})
    result.scores[page.name] = _score(wrong)
    return result


def test_errors_are_counted_by_letter_and_by_word(tmp_path: Path) -> None:
    """One wrong letter is one wrong word."""
    found = scoring.score(_page("der Hund bellt", path=tmp_path), "der Bund bellt")
    assert (found.wrong_characters, found.characters) == (1, 14)
    assert (found.wrong_words, found.words) == (1, 3)


def test_both_sides_are_brought_to_one_form(tmp_path: Path) -> None:
    """White space, composed letters and the sign for a broken line do not count."""
    found = scoring.score(_page("Stra¬\nße  für", path=tmp_path), "Stra-\n\nße fu\u0308r\f")
    assert found.wrong_characters == 0


def test_broken_words_are_joined_where_the_truth_has_them_joined(tmp_path: Path) -> None:
    """Only there: elsewhere a hyphen is a letter like any other."""
    read = "the gar-\nden"
    assert not scoring.score(_page("the garden", path=tmp_path, joined=True), read).wrong_characters
    assert scoring.score(_page("the garden", path=tmp_path), read).wrong_characters == 2


@given(st.lists(st.text("abcdef", min_size=1, max_size=5)), st.randoms(use_true_random=False))
def test_a_bag_does_not_mind_the_order(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], random: object
) -> None:
    """However the words are shuffled, all of them are there."""
    shuffled = list(words)
    getattr(random, "shuffle")(shuffled)  # noqa: B009  # hypothesis does not type it
    path = tmp_path_factory.getbasetemp()
    page = _page(" ".join(words), path=path, measure=corpus.Measure.BAG)
    assert scoring.score(page, " ".join(shuffled)).wrong_characters == 0


@given(st.lists(st.text("abc", min_size=1, max_size=4)), st.lists(st.text("abc", min_size=1)))
def test_a_bag_never_counts_more_than_everything(
    tmp_path_factory: pytest.TempPathFactory, truth: list[str], read: list[str]
) -> None:
    """At worst all of the truth is missing and all that was read is extra."""
    path = tmp_path_factory.getbasetemp()
    page = _page(" ".join(truth), path=path, measure=corpus.Measure.BAG)
    found = scoring.score(page, " ".join(read))
    letters = sum(map(len, truth)) + sum(map(len, read))
    assert 0 <= found.wrong_characters <= letters + abs(len(truth) - len(read))


def test_a_bag_pairs_the_most_alike(tmp_path: Path) -> None:
    """A misread word costs its wrong letters, wherever it stands."""
    page = _page("rote Rosen im Garten", path=tmp_path, measure=corpus.Measure.BAG)
    found = scoring.score(page, "Gartem im rote Rosen")
    assert (found.wrong_characters, found.wrong_words) == (1, 1)


def test_a_corpus_is_read_from_its_manifest(tmp_path: Path) -> None:
    """Black letter has a language of its own, and hints say how to score."""
    rows = [("deu_frak/a.png", "cer"), ("eng/b.png", "bow or order-tolerant")]
    first, second = corpus.load(_corpus(tmp_path, rows))
    assert (first.language, first.collection) == ("frk", "deu_frak")
    assert (first.measure, second.measure) == (corpus.Measure.ORDER, corpus.Measure.BAG)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    """The message names the folder and the option."""
    with pytest.raises(errors.SettingsError, match="--corpus"):
        corpus.load(tmp_path)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_sample_has_as_many_pages_as_asked_for(
    tmp_path_factory: pytest.TempPathFactory, total: int, count: int
) -> None:
    """No page twice, and no more than there are."""
    path = tmp_path_factory.getbasetemp()
    pages = [_page(str(number), path=path) for number in range(total)]
    chosen = corpus.sample(pages, count)
    assert len(chosen) == min(count, total) == len({page.truth for page in chosen})


def test_a_difference_is_proven_only_by_many_pages_that_agree() -> None:
    """One bad page among good ones is bad luck; all of them worse is worse."""
    good = [_score(10)] * 20
    assert scoring.compare([_score(15)] * 20, good).worse
    assert not scoring.compare([*[_score(9)] * 19, _score(90)], good).worse
    assert not scoring.compare(good, good).worse


def test_a_scan_has_a_page_for_every_image(tmp_path: Path) -> None:
    """Also for transparent images and ones of an impossible resolution."""
    found = corpus.load(_corpus(tmp_path, [("eng/a.png", "cer"), ("eng/b.png", "cer")]))
    clear = np.zeros((50, 60, 4), np.uint8)
    Image.fromarray(clear).save(found[0].path, dpi=(1, 1))
    corpus.make_scan(found, tmp_path / "scan.pdf")
    assert (tmp_path / "scan.pdf").read_bytes().startswith(b"%PDF")


def test_the_verdict_is_that_of_the_aims(tmp_path: Path) -> None:
    """Each aim is judged by the figures of this run."""
    page = _page("x", path=tmp_path / "x.png")
    figures = {
        "fast": (60, 1.0),
        "balanced": (30, 1.2),
        "accurate": (20, 2.0),
        ocr.RAPIDOCR: (25, 4.0),
        ocr.TESSERACT: (70, 1.0),
        ocr.OCRMYPDF: (65, 1.4),
    }
    results = [_result(name, page, *each) for name, each in figures.items()]
    found = report.Report([page], results, {})
    said = report.verdict(found).plain.splitlines()
    assert "NOT REACHED: fast: 1.5 times as fast as OCRmyPDF" in said
    assert "reached: balanced: faster than OCRmyPDF" in said
    assert "reached: accurate: on no collection worse than the better bare engine" in said
    assert [line for line in said if line.startswith("NOT")] == said[:1]


def test_a_small_contest_is_held(tmp_path: Path) -> None:
    """Every contestant asked for reads every page in a process of its own, and is measured."""
    folder = _corpus(tmp_path, [("eng/a.png", "cer"), ("eng/b.png", "cer")])
    app = typer.Typer()
    app.command()(ocr.command)
    figures = tmp_path / "figures.json"
    chosen = f"tesseract,{ocr.TESSERACT}"
    run = testing.CliRunner().invoke(
        app, ["--corpus", str(folder), "--contestants", chosen, "--output", str(figures)]
    )
    assert run.exit_code == 0, run.output
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert {row["contestant"] for row in rows} == set(chosen.split(","))
    assert all(row["cer"] < 0.05 and row["pages_per_second"] > 0 for row in rows)
    assert "All pages" in run.output


def test_an_unknown_contestant_is_refused(tmp_path: Path) -> None:
    """The message lists those there are."""
    app = typer.Typer()
    app.command()(ocr.command)
    run = testing.CliRunner().invoke(app, ["--corpus", str(tmp_path), "--contestants", "abbyy"])
    assert isinstance(run.exception, errors.SettingsError)
    assert "OCRmyPDF" in str(run.exception)


def test_every_name_has_a_contestant() -> None:
    """What the option offers can be run."""
    assert tuple(contestants.CONTESTANTS) == ocr.ALL
