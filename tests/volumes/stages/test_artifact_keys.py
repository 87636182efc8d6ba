"""What things are called in the bucket."""

from __future__ import annotations

import pytest

from pagewarden import errors
from pagewarden.volumes import artifact_keys


def test_keys_are_those_agreed_on() -> None:
    """Others look for artifacts under these names."""
    keys = artifact_keys.VolumeKeys("job-1", "W22084", "I0886")
    base = "jobs/job-1/volumes/W22084-I0886"
    assert keys.line_detection == f"{base}/line_detection/line_detection.parquet"
    assert keys.rotated_image("I08860003") == f"{base}/line_detection/rotated_images/I08860003.jpg"
    assert keys.line_images == f"{base}/line_extraction/line_images.parquet"
    assert keys.line_image("I08860003", 4) == f"{base}/line_extraction/lines/I08860003_4.jpg"
    assert keys.ocr_results == f"{base}/ocr/ocr_results.parquet"


@pytest.mark.parametrize("bad", ["", "..", "a/b", "../../etc", "a\0b", ".hidden"])
def test_ids_that_lead_elsewhere_are_refused(bad: str) -> None:
    """A job key is written by people."""
    for ids in ((bad, "W1", "I1"), ("job", bad, "I1"), ("job", "W1", bad)):
        with pytest.raises(errors.UnsafePath):
            artifact_keys.VolumeKeys(*ids)


def test_pages_are_in_the_order_of_their_numbers() -> None:
    """Also where nobody has filled up with zeros."""
    names = ["p10", "p9", "p9b", "a/p2", "p09", "cover"]
    assert sorted(names, key=artifact_keys.page_sort_key) == [
        "a/p2",
        "cover",
        "p09",
        "p9",
        "p9b",
        "p10",
    ]
