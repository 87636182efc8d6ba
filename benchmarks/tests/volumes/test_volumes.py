"""What the benchmark measures by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer.testing

from benchmarks import __main__ as main
from benchmarks.volumes import detection, dewarping
from tests.reading import printed

if TYPE_CHECKING:
    from pathlib import Path

BOXES = [(100, 100 + 60 * n, 900, 140 + 60 * n) for n in range(5)]


def quad(left: float, top: float, right: float, bottom: float) -> detection.Polygon:
    """Give the corners of a box."""
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return np.array(corners, np.float32)


def lines() -> list[detection.Line]:
    """Draw lines with baselines at three quarters of their height."""
    return [
        detection.Line(
            quad(*box), np.array([[box[0], box[1] + 30], [box[2], box[1] + 30]], np.float32)
        )
        for box in BOXES
    ]


def test_what_is_drawn_as_the_truth_is_found() -> None:
    """By either measure."""
    found = detection.score_lines(lines(), [quad(*box) for box in BOXES])
    assert (found.lines, found.overlapping, found.drawn, found.right) == (5, 5, 5, 5)
    assert max(found.based) == 5


def test_a_line_in_pieces_is_found_by_its_baseline_only() -> None:
    """No piece is the line, but all of them stand on it."""
    pieces = [
        quad(left, top, left + 250, bottom)
        for _, top, _, bottom in BOXES
        for left in (100, 375, 650)
    ]
    found = detection.score_lines(lines(), pieces)
    assert (found.overlapping, max(found.based), found.right) == (0, 5, 0)


@pytest.mark.parametrize("away", [60 * 6, -400])
def test_a_line_elsewhere_is_not_found(away: int) -> None:
    """And what is drawn there is wrong."""
    moved = [quad(left, top + away, right, bottom + away) for left, top, right, bottom in BOXES]
    found = detection.score_lines(lines(), moved)
    assert (found.overlapping, max(found.based), found.right) == (0, 0, 0)
    assert detection.score_lines(lines(), []).overlapping == 0


def test_scores_of_pages_add_up() -> None:
    """The whole corpus is one."""
    one = detection.score_lines(lines(), [quad(*box) for box in BOXES[:2]])
    both = one + one
    assert (both.lines, both.overlapping, max(both.based)) == (10, 4, 4)


def test_the_truth_lies_beside_its_image(tmp_path: Path) -> None:
    """Where there is one."""
    image = tmp_path / "a.b.png"
    assert detection.load_lines(image) is None
    line = {"polygon": quad(*BOXES[0]).tolist(), "baseline": [[100, 130], [900, 130]], "text": "a"}
    (tmp_path / "a.b.lines.json").write_text(json.dumps([line]), encoding="utf-8")
    (found,) = detection.load_lines(image) or []
    assert found.height == pytest.approx(40)


@pytest.mark.parametrize("bend", dewarping.BENDS[1:], ids=lambda bend: bend.name)
def test_bent_pages_have_the_same_ink_elsewhere(bend: dewarping.Bend) -> None:
    """Nothing of the text is lost."""
    flat = printed.page(printed.ENGLISH * 4).pixels
    bent = dewarping.bent(flat, bend)
    assert (bent < 128).sum() == pytest.approx((flat < 128).sum(), rel=0.1)
    assert not np.array_equal(bent[: flat.shape[0], : flat.shape[1]], flat)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--part", "speed"], "there is no part 'speed'"),
        (["--part", "lines"], "give a folder with --corpus"),
    ],
)
def test_the_command_says_what_is_missing(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it measures anything."""
    monkeypatch.delenv("PAGEWARDEN_CORPUS", raising=False)
    ended = typer.testing.CliRunner().invoke(main.app, ["volumes", *options])
    assert ended.exit_code != 0
    assert said in str(ended.exception or ended.output)
