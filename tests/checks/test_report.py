"""Reports of check jobs."""

from __future__ import annotations

from pagewarden.checks import report


def test_html_shows_the_issues_in_the_picture_and_the_expected_strings() -> None:
    """The frame with the numbered issue, and the string with its verdict and diff."""
    quad = [[1, 2], [30, 2], [30, 12], [1, 12]]
    issue = {"kind": "different", "severity": "error", "message": "m", "quad": quad}
    string = {"expected": "Annuler", "verdict": "different", "found": "Annular"}
    result = {
        "image": "a.png",
        "verdict": "MANUAL",
        "issues": [issue],
        "strings": [string],
        "width": 100,
        "height": 50,
    }
    job = {"jobId": "1", "status": "SUCCEEDED", "results": [result]}

    page = report.render(job, report.ReportFormat.HTML)

    assert '<polygon points="1.0,2.0 30.0,2.0 30.0,12.0 1.0,12.0"/>' in page
    assert "<h3>Reference</h3>" in page
    assert "Annul<del>e</del><ins>a</ins>r" in page
