"""Scores and options of the volumes benchmark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer.testing

from benchmarks import __main__ as main
from benchmarks.volumes import detection, dewarping
from tests.ocr import printed

if TYPE_CHECKING:
    from pathlib import Path

BOXES = [(100, 100 + 60 * n, 900, 140 + 60 * n) for n in range(5)]


def quad(left: float, top: float, right: float, bottom: float) -> detection.Polygon:
    """Return the corners of a box."""
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return np.array(corners, np.float32)


def lines() -> list[detection.Line]:
    """Make lines with baselines at three quarters of their height."""
    return [
        detection.Line(
            quad(*box), np.array([[box[0], box[1] + 30], [box[2], box[1] + 30]], np.float32)
        )
        for box in BOXES
    ]


def test_exact_lines_are_found() -> None:
    """Both measures count them."""
    found = detection.score_lines(lines(), [quad(*box) for box in BOXES])
    assert (found.lines, found.overlapping, found.detected, found.correct) == (5, 5, 5, 5)
    assert max(found.on_baseline) == 5


def test_split_line_is_found_by_baseline_only() -> None:
    """No part overlaps enough, but together they cover the baseline."""
    pieces = [
        quad(left, top, left + 250, bottom)
        for _, top, _, bottom in BOXES
        for left in (100, 375, 650)
    ]
    found = detection.score_lines(lines(), pieces)
    assert (found.overlapping, max(found.on_baseline), found.correct) == (0, 5, 0)


@pytest.mark.parametrize("offset", [60 * 6, -400])
def test_misplaced_line_is_not_found(offset: int) -> None:
    """A detected line elsewhere is not correct."""
    moved = [quad(left, top + offset, right, bottom + offset) for left, top, right, bottom in BOXES]
    found = detection.score_lines(lines(), moved)
    assert (found.overlapping, max(found.on_baseline), found.correct) == (0, 0, 0)
    assert detection.score_lines(lines(), []).overlapping == 0


def test_scores_can_be_added() -> None:
    """The score of a corpus is the sum of those of its pages."""
    one = detection.score_lines(lines(), [quad(*box) for box in BOXES[:2]])
    both = one + one
    assert (both.lines, both.overlapping, max(both.on_baseline)) == (10, 4, 4)


def test_annotated_lines_are_loaded(tmp_path: Path) -> None:
    """The file is next to the image; it may be missing."""
    image = tmp_path / "a.b.png"
    assert detection.load_lines(image) is None
    line = {"polygon": quad(*BOXES[0]).tolist(), "baseline": [[100, 130], [900, 130]], "text": "a"}
    (tmp_path / "a.b.lines.json").write_text(json.dumps([line]), encoding="utf-8")
    (found,) = detection.load_lines(image) or []
    assert found.height == pytest.approx(40)


@pytest.mark.parametrize("bend", dewarping.BENDS[1:], ids=lambda bend: bend.name)
def test_bending_preserves_ink(bend: dewarping.Bend) -> None:
    """A bent page has all of the text."""
    flat = printed.page(printed.ENGLISH * 4).pixels
    bent = dewarping.bend_page(flat, bend)
    assert (bent < 128).sum() == pytest.approx((flat < 128).sum(), rel=0.1)
    assert not np.array_equal(bent[: flat.shape[0], : flat.shape[1]], flat)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "speed"], "unknown part 'speed'"),
        (["--part", "lines"], "pass a folder with --corpus"),
    ],
)
def test_invalid_options_are_rejected(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the option or the value."""
    monkeypatch.delenv("PAGEWARDEN_CORPUS", raising=False)
    result = typer.testing.CliRunner().invoke(main.app, ["volumes", *options])
    assert result.exit_code != 0
    assert message in str(result.exception or result.output)
